"""`start_consuming`: which callbacks it calls, and when it returns or raises."""

import itertools
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from streaming.client._deliveries import CallbackQueue, Consumer
from streaming.client.errors import ClientError
from streaming.client.messages import Delivery


def a_consumer(calls: list[Any]) -> Consumer:
    return Consumer(
        "tag",
        "q",
        1,
        auto_ack=False,
        timeout_s=None,
        callback=calls.append,
        cancel=calls.append,
    )


def a_delivery() -> Delivery:
    made: Any = object()
    return made  # type: ignore[no-any-return]


def test_an_error_between_two_calls_is_raised_by_the_next_and_by_every_other():
    callbacks = CallbackQueue()
    callbacks.stop(ClientError("404"))

    for timeout_s in (None, 0.01, 0):
        with pytest.raises(ClientError, match="404"):
            callbacks.run(timeout_s, lambda: False)


def test_an_error_while_it_waits_ends_it():
    callbacks = CallbackQueue()
    stopping = threading.Timer(0.05, lambda: callbacks.stop(ClientError("404")))
    stopping.start()

    with pytest.raises(ClientError, match="404"):
        callbacks.run(None, lambda: True)


def test_without_callbacks_it_returns_at_once():
    CallbackQueue().run(None, lambda: False)


def test_removing_a_consumer_returns_its_deliveries_and_keeps_the_others():
    callbacks = CallbackQueue()
    one_calls: list[Any] = []
    other_calls: list[Any] = []
    one, other = a_consumer(one_calls), a_consumer(other_calls)
    deliveries = [a_delivery() for _ in range(3)]
    callbacks.put(one, deliveries[0])
    callbacks.put(other, deliveries[1])
    callbacks.put(one, deliveries[2])

    assert callbacks.remove(one) == [deliveries[0], deliveries[2]]
    callbacks.run(0, lambda: True)
    assert (one_calls, other_calls) == ([], [deliveries[1]])


class _InterruptedAt:
    """A trace function: Ctrl-C at the nth line that Python runs, if there are so many."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_an_interrupt_at_any_line_is_what_the_user_sees_and_leaves_nothing_locked():
    for line in itertools.count(1):
        callbacks = CallbackQueue()
        calls: list[Any] = []
        callbacks.put(a_consumer(calls), a_delivery())
        interrupted = _InterruptedAt(line)
        before = sys.gettrace()
        sys.settrace(interrupted)
        try:
            callbacks.run(0.001, lambda: True)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

        callbacks.put(a_consumer(calls), a_delivery())
        callbacks.run(0, lambda: True)
        assert calls, f"interrupted at line {line}"
        if interrupted.left > 0:  # it ended before
            assert line > 10
            return
