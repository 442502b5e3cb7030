"""What each `study=` of study.py reads from the configuration, measures and shows."""
