"""Networks that score the next decision."""
