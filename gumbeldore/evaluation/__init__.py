"""A trained policy and the quality of its solutions: loading, solving, references, tables."""
