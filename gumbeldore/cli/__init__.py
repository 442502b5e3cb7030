"""The command line: Hydra, the checks of its keys, and their reference page."""
