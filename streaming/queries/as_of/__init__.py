"""What the tables say as of an instant: which instant a text means, and what was in the queues.

text --> instant.py --> cut  +  snapshots.py --> contents.py --> what was in the queues
"""
