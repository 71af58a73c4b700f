"""Heartbeats of a front on a thread."""

import threading
import time

from streaming.sequencer import beating
from streaming.sequencer.beating import Beating


class Said:
    """What was said."""

    def __init__(self) -> None:
        self.beats: list[tuple[str, bytes]] = []
        self._came = threading.Condition()

    def __call__(self, vhost: str, beat: bytes) -> None:
        with self._came:
            self.beats.append((vhost, beat))
            self._came.notify_all()

    def wait_for(self, vhost: str, count: int) -> None:
        """Wait until a vhost was named so often."""
        with self._came:
            assert self._came.wait_for(
                lambda: sum(name == vhost for name, _ in self.beats) >= count, 30
            )


def test_a_vhost_is_named_at_once_and_again_until_it_is_dropped(monkeypatch):
    monkeypatch.setattr(beating, "BEAT_S", 0.01)
    said = Said()
    beats = Beating(said)

    beats.keep("/", b"leads")
    assert said.beats == [("/", b"leads")]
    beats.keep("b", b"leads, too")
    said.wait_for("/", 3)
    beats.drop("/", b"ends")
    said.wait_for("b", len(said.beats) + 2)
    beats.close()

    at = said.beats.index(("/", b"ends"))
    assert {name for name, _ in said.beats[at + 1 :]} == {"b"}


def test_a_loop_that_takes_no_turns_is_not_kept_in_the_lead(monkeypatch):
    monkeypatch.setattr(beating, "BEAT_S", 0.01)
    now_s = [100.0]
    monkeypatch.setattr(beating, "monotonic", lambda: now_s[0])
    said = Said()
    beats = Beating(said)
    beats.keep("/", b"leads")
    said.wait_for("/", 2)

    now_s[0] += beating.LONGEST_TURN_S + 1
    beats.drop("/", b"the last before it is silent")  # none is being said
    beats.keep("/", b"said at once")
    time.sleep(0.1)
    assert said.beats[-1] == ("/", b"said at once")
    assert said.beats[-2] == ("/", b"the last before it is silent")
    beats.turned()
    said.wait_for("/", len(said.beats) + 2)
    beats.close()
