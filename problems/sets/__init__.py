"""Evaluation sets by name, file or folder: one module per problem."""
