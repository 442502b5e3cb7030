"""What `study.py` measures: curves, races of settings, estimates of expectations, cost against diversity."""
