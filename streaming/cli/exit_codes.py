"""What the exit status of every dlx command means."""

from typing import Final

EXIT_OK: Final = 0
"""Done, and nothing was found."""

EXIT_FINDINGS: Final = 1
"""The command worked and has bad news: lint with --strict, a differing scenario, a failed test."""

EXIT_INVALID: Final = 2
"""The input cannot be used: stderr says where, what, and what to do. Usage errors are 2 as well."""
