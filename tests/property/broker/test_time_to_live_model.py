"""Time to live in one queue against an obvious model: only a head may expire (R-TTL-3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Broker
from tests.property.broker.playing import tiny_pages

NEVER = 10**9


class Model:
    """The contents of a queue as (place, deadline, body), head first, and the expired bodies."""

    def __init__(self, queue_life_ms: int | None, *, quorum: bool) -> None:
        self.queue_life_ms = queue_life_ms
        self.quorum = quorum
        self.now_ms = 0
        self.ready: list[tuple[int, int, str]] = []
        self.unacked: list[tuple[int, int, str]] = []
        self.expired: list[str] = []
        self.arrivals = 0
        self.returns = -NEVER

    def publish(self, body: str, life_ms: int | None) -> None:
        lives = [life for life in (life_ms, self.queue_life_ms) if life is not None]
        deadline = self.now_ms + min(lives) if lives else NEVER
        self.ready.append((self.arrivals, deadline, body))
        self.arrivals += 1
        self.sweep()

    def get(self) -> str | None:
        if not self.ready:
            return None
        self.unacked.append(self.ready.pop(0))
        self.sweep()
        return self.unacked[-1][2]

    def requeue(self, index: int) -> str:
        place, deadline, body = self.unacked.pop(index)
        if self.quorum:
            place = self.returns
            self.returns += 1
        self.ready = sorted([*self.ready, (place, deadline, body)])
        self.sweep()
        return body

    def sweep(self) -> None:
        while self.ready and self.ready[0][1] <= self.now_ms:
            self.expired.append(self.ready.pop(0)[2])


moves = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from([None, None, 0, 1, 5, 20])),
        st.tuples(st.just("publish"), st.sampled_from([None, 5, 20])),
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("requeue"), st.integers(0, 9)),
    ),
    min_size=5,
    max_size=50,
)


@pytest.mark.parametrize("quorum", [False, True])
@given(moves=moves, life_ms=st.sampled_from([None, 0, 10]), cut=st.booleans())
def test_only_a_head_expires_and_no_head_outlives_its_deadline(quorum, moves, life_ms, cut):
    """R-TTL-1..5, R-TTL-12, R-SET-2, R-SET-7."""
    arguments: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    if quorum:
        arguments |= {"queue_type": "quorum", "delivery_limit": -1}
    if life_ms is not None:
        arguments["message_ttl"] = life_ms
    with tiny_pages():
        broker = Broker(cut=cut, consumer_timeout_ms=None)
        broker.queue("work", **arguments)
        broker.queue("dead")
        model = Model(life_ms, quorum=quorum)
        refs: dict[str, str] = {}
        for index, (move, number) in enumerate(moves):
            _make(broker, model, refs, move, number, f"m{index}")
            assert broker.depth("work") == len(model.ready)
        assert broker.drain("dead") == model.expired


def _make(
    broker: Broker, model: Model, refs: dict[str, str], move: str, number: Any, body: str
) -> None:
    """One move, on both."""
    if move == "publish":
        life: dict[str, Any] = {} if number is None else {"expiration": str(number)}
        broker.publish("", "work", body, **life)
        model.publish(body, number)
    elif move == "wait":
        model.now_ms += number
        model.sweep()
        broker.at(model.now_ms)
    elif move == "get":
        got = model.get()
        assert [broker.body(one) for one in broker.get("work", body)] == ([got] if got else [])
        if got:
            refs[got] = f"{body}/0"
    elif model.unacked:
        back = model.requeue(number % len(model.unacked))
        broker.reject(refs[back], requeue=True)
