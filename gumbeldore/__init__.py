"""Exact sampling without replacement from sequence models, and self-improvement training on top of it.

Start at `gumbeldore.search.search` (methods by name in `gumbeldore.methods`), `gumbeldore.self_improvement` and the
contracts in `gumbeldore.interfaces`.
"""
