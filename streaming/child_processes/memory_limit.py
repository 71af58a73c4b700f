"""Limits what a child process takes, so that what users ask for harms nobody else."""

import resource
from pathlib import Path
from typing import Final

MEMORY_BYTES: Final = 512 * 1024 * 1024
"""The most memory of the process."""

LEAST_BYTES: Final = 256 * 1024 * 1024
"""What a query may take at least, however much Python and its libraries have taken."""

FILE_BYTES: Final = 1_000_000_000
"""The largest file that it writes: an export, or a temporary file of DuckDB."""


def limit_memory() -> None:
    """Let allocations beyond the memory fail; what is there now stays."""
    taken, resident = _now("VmData"), _now("VmRSS")
    more = max(MEMORY_BYTES - resident, LEAST_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (taken + more, taken + more))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _now(name: str) -> int:
    """A figure of this process; bytes, 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = next((line for line in lines if line.startswith(f"{name}:")), f"{name}: 0")
    return int(found.split()[1]) * 1024
