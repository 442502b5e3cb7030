"""Self-improvement: experts, their dataset, imitation, greedy validation, the state of a training."""
