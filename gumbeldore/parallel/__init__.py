"""Searches of many instances: in this process, on Ray actors of this machine, or on a Ray cluster."""
