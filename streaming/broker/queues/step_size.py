"""How much of what concerns very many copies one step does (`unfinished.py`)."""

MAX_AT_ONCE = 20_000
"""Copies that one step hands out, purges, deletes or lets expire; the rest follow later."""
