"""The exit codes of every dlx command."""

from typing import Final

EXIT_OK: Final = 0
"""The command worked and found nothing wrong."""

EXIT_FINDINGS: Final = 1
"""The command worked and reports a problem: lint with --strict, a difference, a failed test."""

EXIT_INVALID: Final = 2
"""The input or the usage is wrong: stderr says where, what, and what to do."""
