"""What every run needs: files, checkpoints, precision, checked settings, faults."""
