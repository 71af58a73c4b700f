"""Invariants of consumers, whatever clients do: limits, priorities, a single active one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.outbound import DeliveryOut
from tests.builders import Broker

CHANNELS = ("x", "y", "z")
channels = st.sampled_from(CHANNELS)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("publish")),
        st.tuples(st.just("publish")),
        st.tuples(st.just("consume"), channels, st.integers(0, 2), st.integers(-1, 1)),
        st.tuples(st.just("cancel"), channels),
        st.tuples(st.just("limit"), channels, st.integers(0, 3)),
        st.tuples(st.just("settle"), channels, st.sampled_from(["ack", "requeue", "reject"])),
        st.tuples(st.just("settle all"), channels),
        st.tuples(st.just("close"), channels),
    ),
    max_size=30,
)


class Clients:
    """What clients know of their consumers and deliveries."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.unacked: dict[str, list[int]] = {name: [] for name in CHANNELS}
        self.consumers = 0

    def make(self, move: tuple[Any, ...]) -> list[DeliveryOut]:
        """Make a move; return the deliveries that it caused."""
        match move:
            case ("publish",):
                out = self.broker.publish("", "q", "m")
            case ("consume", channel, prefetch, priority):
                self.consumers += 1
                out = self.broker.do(
                    commands.Consume(
                        queue="q",
                        label=f"c{self.consumers}",
                        channel=channel,
                        prefetch=prefetch,
                        arguments={"x-priority": priority},
                    )
                )
            case ("cancel", channel):
                found = self.broker.shard.state.channels.get(None, channel)
                active = [] if found is None else found.active_consumers()
                label = active[0].label if active else "none"
                out = self.broker.do(commands.Cancel(label=label, channel=channel))
            case ("limit", channel, limit):
                out = self.broker.do(commands.Qos(prefetch=limit, is_global=True, channel=channel))
            case ("settle", channel, outcome) if self.unacked[channel]:
                tag = self.unacked[channel].pop(0)
                out = self.broker.do(commands.Settle(tag=tag, outcome=outcome, channel=channel))
            case ("settle all", channel):
                self.unacked[channel].clear()
                if self.broker.shard.state.channels.get(None, channel) is None:
                    return []
                out = self.broker.do(commands.Settle(tag=0, multiple=True, channel=channel))
            case ("close", channel):
                self.unacked[channel].clear()
                out = self.broker.do(commands.CloseChannel(channel=channel))
            case _:
                return []
        given_out = [each for each in out if isinstance(each, DeliveryOut)]
        for delivery in given_out:
            self.unacked[delivery.actor.channel].append(delivery.tag)
        return given_out


def check(broker: Broker, clients: Clients) -> None:
    """What holds after every step."""
    state = broker.shard.state
    queue = state.queues.named("q")
    waiting = [state.channels.consumer(key) for key in queue.line.waiting]
    assert not queue.ready or not any(consumer.has_room for consumer in waiting)
    priorities = [consumer.priority for consumer in waiting]
    assert priorities == sorted(priorities, reverse=True)
    assert all(consumer.in_line for consumer in waiting)
    for name in CHANNELS:
        channel = state.channels.get(None, name)
        held = (
            0
            if channel is None
            else sum(each.deliveries.unacked for each in channel.consumers.values())
        )
        assert held == len(clients.unacked[name])
    if queue.line.single_active:
        assert (queue.line.active is None) == (not queue.line.consumers)
        assert queue.line.active is None or queue.line.active in queue.line.consumers
        assert {consumer.key for consumer in waiting} <= {queue.line.active}


@given(moves=moves, cut=st.booleans())
def test_a_common_limit_is_never_exceeded(moves, cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    clients = Clients(broker)
    limits = dict.fromkeys(CHANNELS, 0)
    for move in moves:
        given_out = clients.make(move)
        if move[0] == "limit":
            limits[move[1]] = move[2]
        elif move[0] == "close":
            limits[move[1]] = 0
        for name in {delivery.actor.channel for delivery in given_out}:
            assert not limits[name] or len(clients.unacked[name]) <= limits[name]
        check(broker, clients)


@given(
    moves=moves,
    cut=st.booleans(),
    quorum=st.booleans(),
    compat=st.sampled_from(["3.10", "4.0"]),
)
def test_at_most_one_consumer_is_active(moves, cut, quorum, compat):
    broker = Broker(cut=cut, compat=compat)
    kind = "quorum" if quorum else "classic"
    broker.queue("q", queue_type=kind, single_active_consumer=True)
    clients = Clients(broker)
    for move in moves:
        if move[0] == "limit" and quorum:
            continue  # a quorum queue refuses the consumers of such a channel
        clients.make(move)
        check(broker, clients)


@given(moves=moves, cut=st.booleans(), quorum=st.booleans())
def test_the_line_is_in_order_of_priority(moves, cut, quorum):
    broker = Broker(cut=cut)
    broker.queue("q", queue_type="quorum" if quorum else "classic")
    clients = Clients(broker)
    for move in moves:
        if move[0] == "limit":
            continue
        clients.make(move)
        check(broker, clients)
