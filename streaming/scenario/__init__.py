"""Scenario files: a topology, timed steps, and what comes of them. See `document.py` for the format."""
