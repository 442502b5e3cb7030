"""Measurements, each with one command: `python -m benchmarks NAME`. Figures are medians; nothing here is a test."""
