"""How far a thread or process yields to others, as the system counts it."""

import os


def yield_at_least(task: int, nice: int) -> None:
    """Let a thread or process yield so far; one that yields further, as under `nice`, stays so.

    Only the superuser may take niceness back.

    Args:
        task: the native id of a thread, or that of a process.
        nice: from 0 to 19.
    """
    before = os.getpriority(os.PRIO_PROCESS, task)
    os.setpriority(os.PRIO_PROCESS, task, max(nice, before))
