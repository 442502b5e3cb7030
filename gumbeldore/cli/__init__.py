"""The command line: Hydra, and the checks of its keys."""
