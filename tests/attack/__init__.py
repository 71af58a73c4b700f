"""Clients that break AMQP's rules, and one that keeps them and must not notice.

    attacks.py   one function per kind of attack
    siege.py     a broker under attack: its log, its memory, and the well-behaved client

`python -m tests.attack --seconds 3600` attacks until the time is over. What must hold: each attack
ends with an AMQP error, an answer or a closed connection; the log has no traceback; memory is
bounded; the well-behaved client gets every answer.
"""
