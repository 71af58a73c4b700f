"""The exit codes of every dlx command."""

from typing import Final

EXIT_OK: Final = 0
"""The command worked and found nothing wrong."""

EXIT_FINDINGS: Final = 1
"""The command worked and reports a problem: lint with --strict, a difference, a failed test."""

EXIT_INVALID: Final = 2
"""The input or the usage is wrong: stderr says where, what, and what to do."""

EXIT_UNROUTED: Final = 3
"""`publish`: the broker confirmed every message, and no queue took one of them."""

EXIT_NO_JOB: Final = 4
"""No job is heard or answers, and nothing was changed: trying again makes no duplicate."""

EXIT_NO_ANSWER: Final = 5
"""What was sent has no answer: it takes effect when a job reads it. Trying again repeats it."""

EXIT_INTERRUPTED: Final = 130
"""Ctrl-C, as shells count it."""
