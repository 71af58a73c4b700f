"""Whether the job runs, and why its batches fail, from its checkpoint, asked on a thread."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streaming.console.asking import Asking
from topology.sentences import say

if TYPE_CHECKING:
    from streaming.pipeline.checkpoint.job_state import JobState

PATIENCE_S: Final = 0.5
"""How long a page waits for an answer: the checkpoint may be in an object store."""

CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "Kafka": (
        say("Kafka does not answer, or did not take what the job sent."),
        say("See that Kafka runs and that the job's machine reaches it; then wait."),
    ),
    "the storage": (
        say("The storage of the tables or of the checkpoint does not answer."),
        say("See that the storage answers and that the job's machine reaches it; then wait."),
    ),
    "an executor that was lost": (
        say("A process of Spark's ended while it worked for the batch."),
        say("If it repeats, give executors more memory, or look in spark.log for why they end."),
    ),
    "a Python worker that a busy machine started too late": (
        say("The machine was too busy to start a process of the job in time."),
        say("If it repeats, give the job's machine more processors, or end what else runs there."),
    ),
    "a driver that has lost its lease: it planned or ended a batch when it woke up": (
        say("Another process has used the same checkpoint."),
        say("If it repeats, see that only one job uses this checkpoint."),
    ),
}
"""What a passing failure is, and what to do; by the job's name of it."""

Ask = Callable[[Path], "JobState"]
"""Asks the checkpoint of a configuration."""


class JobWatch:
    """Asks for the state of a job while someone looks at the page."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or _ask
        self._state: Asking[JobState] = Asking("job")

    def of(self, config: Path) -> "JobState | None":
        """Return what the checkpoint tells; None: it cannot be read."""
        return self._state.get(lambda: self._ask(config), PATIENCE_S)


def _ask(config: Path) -> "JobState":
    from streaming.config.loading import read_config, rooted  # noqa: PLC0415 - only where asked
    from streaming.pipeline.checkpoint.job_state import job_state  # noqa: PLC0415

    return job_state(rooted(read_config(config), config.absolute().parent), os.environ)
