"""Scenario files: a topology, timed steps, what comes of them; the format is in `document.py`."""
