"""A classic queue against the obvious model, a sorted list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from tests.builders import Broker
from tests.property.broker.playing import tiny_pages


class Model:
    """The contents of a classic queue: (minus priority, arrival, body), head first."""

    def __init__(self, top: int, max_length: int | None) -> None:
        self.top = top
        self.max_length = max_length
        self.ready: list[tuple[int, int, str]] = []
        self.unacked: dict[str, tuple[int, int, str]] = {}
        self.returned: set[str] = set()
        self.dropped: list[str] = []
        self.arrivals = 0
        self.refs: dict[str, str] = {}

    def publish(self, body: str, priority: int) -> None:
        self._put((-min(priority, self.top), self.arrivals, body))
        self.arrivals += 1

    def get(self) -> tuple[str, bool] | None:
        if not self.ready:
            return None
        entry = self.ready.pop(0)
        self.unacked[entry[2]] = entry
        return entry[2], entry[2] in self.returned

    def get_message(self, number: int) -> tuple[str, bool] | None:
        for index, entry in enumerate(self.ready):
            if entry[1] == number:
                self.unacked[entry[2]] = self.ready.pop(index)
                return entry[2], entry[2] in self.returned
        return None

    def requeue(self, body: str) -> None:
        self.returned.add(body)
        self._put(self.unacked.pop(body))

    def requeue_all(self) -> None:
        """All copies return to their places before the head is dropped (R-LEN-4)."""
        self.returned |= self.unacked.keys()
        self.ready = sorted([*self.ready, *self.unacked.values()])
        self.unacked = {}
        self._drop()

    def _put(self, entry: tuple[int, int, str]) -> None:
        self.ready = sorted([*self.ready, entry])
        self._drop()

    def _drop(self) -> None:
        while self.max_length is not None and len(self.ready) > self.max_length:
            self.dropped.append(self.ready.pop(0)[2])


moves = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 4)),
        st.tuples(st.just("publish"), st.integers(0, 4)),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("get message"), st.integers(0, 20)),
        st.tuples(st.sampled_from(["ack", "requeue", "reject"]), st.integers(0, 9)),
        st.tuples(st.just("requeue all"), st.just(0)),
    ),
    min_size=5,
    max_size=60,
)


@pytest.mark.parametrize("top", [None, 3])
@given(moves=moves, max_length=st.none() | st.integers(0, 6), cut=st.booleans())
def test_a_classic_queue_is_a_list_sorted_by_priority_and_arrival(top, moves, max_length, cut):
    """R-QUEUE-2, R-SET-2, R-LEN-1, R-LEN-4, R-LEN-13, R-PRI-1..3, R-PRI-6."""
    arguments: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    if top is not None:
        arguments["max_priority"] = top
    if max_length is not None:
        arguments["max_length"] = max_length
    with tiny_pages():
        broker = Broker(cut=cut)
        broker.queue("work", **arguments)
        broker.queue("dead")
        model = Model(top or 0, max_length)
        for index, (move, number) in enumerate(moves):
            _make(broker, model, move, number, f"m{index}")
            assert broker.depth("work") == len(model.ready)
        rest = broker.drain("work")
        assert broker.drain("dead") == model.dropped
    assert rest == [body for _priority, _arrival, body in model.ready]


def _make(broker: Broker, model: Model, move: str, number: int, body: str) -> None:
    """One move, on both."""
    if move == "publish":
        broker.publish("", "work", body, priority=number)
        model.publish(body, number)
    elif move in {"get", "get message"}:
        fields: dict[str, Any] = {} if move == "get" else {"message": f"0/0/{number}"}
        given = broker.get("work", body, **fields)
        expected = model.get() if move == "get" else model.get_message(number)
        got = [(broker.body(one), bool(one.requeue_count)) for one in given]
        assert got == ([] if expected is None else [expected])
        if expected is not None:
            model.refs[expected[0]] = f"{body}/0"
    elif move == "requeue all":
        model.requeue_all()
        broker.do(commands.Recover())
    elif model.unacked:
        one = sorted(model.unacked)[number % len(model.unacked)]
        ref = model.refs[one]
        if move == "requeue":
            model.requeue(one)
            broker.reject(ref, requeue=True)
        elif move == "reject":
            del model.unacked[one]
            model.dropped.append(one)
            broker.reject(ref)
        else:
            del model.unacked[one]
            broker.ack(ref)
