"""One ack of many deliveries is the same as many acks of one."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.outbound import DeliveryOut
from tests.builders import Broker

LABELS = ("c", "c", "g", "d", "nothing")
WITH_A_BACKLOG = {
    "prefetch": 3,
    "messages": 40,
    "gets": 4,
    "second": 2,
    "again": True,
    "ttl_ms": None,
    "deleted": False,
    "rested": False,
}

topologies = st.fixed_dictionaries(
    {
        "prefetch": st.sampled_from([0, 1, 3, 10]),
        "messages": st.integers(0, 40),
        "gets": st.integers(0, 10),
        "second": st.sampled_from([None, 0, 2]),
        "again": st.booleans(),
        "ttl_ms": st.sampled_from([None, 50]),
        "deleted": st.booleans(),
        "rested": st.booleans(),
    }
)
_runs = st.tuples(st.sampled_from(LABELS), st.integers(0, 20), st.integers(1, 12))
settlements = st.lists(_runs, min_size=1, max_size=6)


def delivered(shape: dict[str, Any]) -> Broker:
    """Deliver messages of two queues to gets and to consumers, some with the same label."""
    broker = Broker()
    limits = {} if shape["ttl_ms"] is None else {"message_ttl": shape["ttl_ms"]}
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="other", **limits)
    broker.queue("other")
    for number in range(shape["messages"]):
        broker.publish("", ("work", "other")[number % 5 == 0], f"m{number}")
    broker.get("other", "g", count=shape["gets"] // 2)
    broker.get("work", "g", count=shape["gets"])
    broker.consume("work", "c", prefetch=shape["prefetch"])
    if shape["second"] is not None:
        broker.consume("work", "d", prefetch=shape["second"], channel="c1")
    if shape["again"]:
        broker.do(commands.Cancel(label="c"))
        broker.consume("work", "c", prefetch=shape["prefetch"])
    if shape["deleted"]:
        broker.do(commands.DeleteQueue(queue="other"))
    if shape["rested"]:
        broker.finish()
    broker.at(60)
    return broker


def refs_of(broker: Broker, settlement: list[tuple[str, int, int]]) -> list[str]:
    """Return refs of runs; of consumers only those of deliveries that there are already."""
    made: dict[str, int] = {}
    for out in [*broker.outbound, *broker.shard.outbound]:
        if isinstance(out, DeliveryOut):
            label, _, number = out.ref.rpartition("/")
            made[label] = max(made.get(label, 0), int(number) + 1)
    return [
        f"{label}/{number}"
        for label, first, count in settlement
        for number in range(first, first + count)
        if label in {"g", "nothing"} or number < made.get(label, 0)
    ]


def state_of(broker: Broker) -> dict[str, bytes]:
    """Return the state, but for the header: it counts answers, of which one ack has one."""
    return {key: value for key, value in broker.store.values.items() if key != "header"}


@given(topologies, settlements)
@example(WITH_A_BACKLOG, [("c", 0, 3), ("d", 0, 2), ("g", 1, 7)])
@example({**WITH_A_BACKLOG, "deleted": True, "rested": True}, [("g", 0, 6), ("c", 2, 1)])
@example({**WITH_A_BACKLOG, "prefetch": 10, "ttl_ms": 50}, [("c", 4, 3), ("c", 0, 10)])
def test_an_ack_of_many_gives_the_events_of_acks_of_each(shape, settlement):
    together, singly = delivered(shape), delivered(shape)
    refs = refs_of(together, settlement)

    together.ack(*refs)
    for ref in refs:
        singly.ack(ref)
    together.finish()
    singly.finish()

    assert together.sentences == singly.sentences
    assert state_of(together) == state_of(singly)
