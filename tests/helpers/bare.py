"""A Python without the packages that the core does not need."""

from __future__ import annotations

BARE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ray", "hydra", "omegaconf", "tensorboard", "rich", "matplotlib", "pytest"}:
            raise ImportError(f"{name} is not installed on this machine")

sys.meta_path.insert(0, Blocked())
"""
