"""Sends the heartbeats of a front, on a thread.

A turn of the event loop may be long: where a thousand queues expire at one instant, one record has
all of that. The front leads meanwhile, and its heartbeats go on. A loop that does not come back
at all is replaced.
"""

from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Final

from streaming.sequencer.leader_heartbeats import BEAT_S

LONGEST_TURN_S: Final = 60.0
"""After so long a turn, no heartbeats are sent any more."""

Say = Callable[[str, bytes], None]
"""Sends a heartbeat of a vhost."""


class Beating:
    """What is sent again and again, until it is dropped."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._beats: dict[str, bytes] = {}
        self._lock = Lock()
        self._turned_s = monotonic()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="heartbeats of this front", daemon=True)
        self._thread.start()

    def keep(self, vhost: str, beat: bytes) -> None:
        """Say this at once, and from now on."""
        with self._lock:
            self._beats[vhost] = beat
            self._say(vhost, beat)

    def drop(self, vhost: str, last: bytes | None = None) -> None:
        """Say nothing more of a vhost, but this."""
        with self._lock:
            self._beats.pop(vhost, None)
            if last is not None:
                self._say(vhost, last)

    def turned(self) -> None:
        """Note that the event loop takes turns."""
        self._turned_s = monotonic()

    def close(self) -> None:
        """Say nothing more."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(BEAT_S):
            with self._lock:
                if monotonic() - self._turned_s > LONGEST_TURN_S:
                    continue
                for vhost, beat in self._beats.items():
                    self._say(vhost, beat)
