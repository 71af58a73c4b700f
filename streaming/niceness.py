"""How far a thread, process or session yields to others, as the system counts it."""

import logging
import os
import time
from pathlib import Path
from typing import Final

_TRIES: Final = 10
_PAUSE_S: Final = 0.1
"""The kernel lets users change a session once in a tenth of a second, all together."""

logger = logging.getLogger(__name__)


def yield_at_least(task: int, nice: int) -> None:
    """Let a thread or process yield so far; one that yields further, as under `nice`, stays so.

    Only the superuser may take niceness back.

    Args:
        task: the native id of a thread, or that of a process.
        nice: from 0 to 19.
    """
    before = os.getpriority(os.PRIO_PROCESS, task)
    os.setpriority(os.PRIO_PROCESS, task, max(nice, before))


def make_session_nice(process: int, nice: int) -> None:
    """Let a session yield, if nothing is in it but a process, its leader, and what that starts.

    Linux may share processor time between sessions first (autogroup), as Debian's does: there the
    niceness of a thread only counts within its session. Elsewhere this does nothing.

    Args:
        process: its id.
        nice: from -20 to 19; 0 is as any other.
    """
    group = Path(f"/proc/{process}/autogroup")
    if not group.exists() or os.getsid(process) != process:
        return
    for _ in range(_TRIES):
        try:
            group.write_text(str(nice))
        except BlockingIOError:  # others have just changed theirs
            time.sleep(_PAUSE_S)
            continue
        except OSError as error:  # as in a container whose /proc can only be read
            logger.warning("the session of process %d does not yield to others: %s", process, error)
        return
