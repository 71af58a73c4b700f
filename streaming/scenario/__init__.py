"""Scenario files: a topology, timed steps and expected results; see `document.py`."""
