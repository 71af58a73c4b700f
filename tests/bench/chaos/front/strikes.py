"""What happens to the parts that run: kills, and a leader that sleeps until it is replaced."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from tests.bench.chaos.front.fronts import FrontProcess, Running

KINDS: Final = ("leader", "standby", "job", "Kafka", "sleep")
"""`sleep`: the leader is stopped (SIGSTOP) until another front leads, and then goes on."""

T = TypeVar("T")

WAIT_S: Final = 600.0
_MOST_DOWN_S: Final = 4.0
_MOST_ASLEEP_S: Final = 2.0


class Sleep(NamedTuple):
    """A leader was asleep while another front took over.

    Attributes:
        port: of the leader.
        begin, end: seconds since 1970.
        replaced_at: the offset since which the other one leads.
    """

    port: int
    begin: float
    end: float
    replaced_at: int


class Strikes:
    """Strikes parts, each kind in its turn, in random order.

    Args:
        prove: called with the new leader while the old one is asleep: clients work with it.

    Attributes:
        done: how often each kind was struck.
        sleeps: of leaders.
    """

    def __init__(
        self, running: Running, chances: random.Random, prove: Callable[[FrontProcess], None]
    ) -> None:
        self.done: Counter[str] = Counter()
        self.sleeps: list[Sleep] = []
        self._running = running
        self._chances = chances
        self._prove = prove
        self._turn: list[str] = []

    def strike(self) -> str:
        """Strike the next part; return its kind."""
        if not self._turn:
            self._turn = self._chances.sample(KINDS, len(KINDS))
        kind = self._turn.pop()
        running = self._running
        match kind:
            case "leader":
                self._kill(self._leader())
            case "standby":
                self._kill(running.other(self._leader()))
            case "job":
                running.job.kill()
                running.job.start()
            case "Kafka":
                running.kafka.kill()
                time.sleep(self._chances.uniform(0, _MOST_DOWN_S))
                running.kafka.start()
            case _:
                self._sleep(self._leader())
        self.done[kind] += 1
        return kind

    def _kill(self, front: FrontProcess) -> None:
        front.process.kill()
        front.start()

    def _leader(self) -> FrontProcess:
        return wait_for(self._running, self._running.leader, "no front leads")

    def _sleep(self, front: FrontProcess) -> None:
        """Stop a leader, wait until it is replaced, and let it go on."""
        running, other = self._running, self._running.other(front)
        pid = front.process.pid
        assert pid is not None, "the leader runs"
        begin = time.time()
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(running, lambda: other.leads_since is not None, "nobody took over")
            replaced_at = other.leads_since
            assert replaced_at is not None
            self._prove(other)
            running.pause(self._chances.uniform(0, _MOST_ASLEEP_S))
        finally:
            end = time.time()
            os.kill(pid, signal.SIGCONT)
        self.sleeps.append(Sleep(front.port, begin, end, replaced_at))
        wait_for(running, lambda: front.leads_since is None, "it does not see that it was replaced")


def wait_for(running: Running, condition: Callable[[], T | None], what: str) -> T:
    """Wait until something is there and true, and return it.

    Raises:
        RuntimeError: it takes too long.
    """
    deadline_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            processes = [*(front.process for front in running.fronts), running.job]
            logs = "\n".join([*running.ends, *(each.log_end() for each in processes)])
            raise RuntimeError(f"{what}, after {WAIT_S:g} s:\n{logs}")
        running.pause(0.1)
    return found
