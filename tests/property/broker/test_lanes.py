"""Lanes with the routing of the job: order and totals hold, and a single lane is RabbitMQ."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.commands import Ack, Command, Nack
from streaming.broker.events import ENDINGS, Kind
from streaming.broker.message import NO_COPY
from streaming.scenario.document import VERSIONS, on_single_lanes
from streaming.scenario.play import play
from tests.laned_vhost import LanedVhost
from tests.recordings import recorded_for_lanes
from topology.declarations import Binding, Exchange, Queue
from topology.refusals import Refusal

QUEUES = ("a", "b", "c")
CHANNELS = ("c0", "c1")


class Vhost(msgspec.Struct, frozen=True):
    """A topology: a fanout and a direct exchange; of each queue its keys and arguments."""

    lanes: int
    queues: dict[str, tuple[tuple[str, ...], bool, bool]]


_queue = st.tuples(
    st.lists(st.sampled_from(["k1", "k2"]), max_size=2).map(tuple), st.booleans(), st.booleans()
)
topologies = st.builds(
    Vhost,
    lanes=st.integers(2, 5),
    queues=st.fixed_dictionaries(dict.fromkeys(QUEUES, _queue)),
)

_publishes = st.tuples(
    st.just("publish"), st.sampled_from(["fan", "direct"]), st.sampled_from(["k1", "k2", "none"])
)
_consumes = st.tuples(
    st.just("consume"),
    st.sampled_from(QUEUES),
    st.sampled_from(CHANNELS),
    st.sampled_from([0, 1, 3, 10]),
)
_gets = st.tuples(st.just("get"), st.sampled_from(QUEUES), st.integers(1, 3), st.booleans())
_settles = st.tuples(
    st.just("settle"),
    st.sampled_from(["ack", "requeue", "reject"]),
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.booleans(),
)
_others = st.sampled_from([("cut",), ("recover",), ("close",), ("cancel",)])
scripts = st.lists(
    st.tuples(
        st.one_of(_publishes, _publishes, _consumes, _gets, _settles, _others), st.integers(0, 4)
    ),
    max_size=60,
)


class Client:
    """Plays a script as clients would: it settles what it was given."""

    def __init__(self, topology: Vhost) -> None:
        self.lanes = topology.lanes
        self.vhost = LanedVhost(topology.lanes)
        self.published: list[tuple[str, str]] = []
        self.labels = 0
        self.consumers: dict[str, tuple[str, int]] = {}  # tag -> channel and prefetch
        self._declare(topology)

    def _declare(self, topology: Vhost) -> None:
        self.do(commands.DeclareExchange(exchange=Exchange("fan", "fanout")))
        self.do(commands.DeclareExchange(exchange=Exchange("direct", "direct")))
        for name, (keys, single, dead_letters) in topology.queues.items():
            arguments: dict[str, Any] = {"x-single-lane": single}
            if dead_letters:
                arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            self.do(commands.DeclareQueue(queue=Queue(name, arguments=arguments)))
            for key in keys:
                self.do(commands.Bind(binding=Binding("direct", name, "queue", key)))
            self.do(commands.Bind(binding=Binding("fan", name, "queue", "")))
        self.do(commands.DeclareQueue(queue=Queue("dead")))

    def do(self, command: Command, turn: int = 0) -> dict[str, Any]:
        answer = self.vhost.do(command, turn)
        assert not isinstance(answer, Refusal), answer
        return answer

    def play(self, script: list[tuple[tuple[Any, ...], int]]) -> None:
        for (what, *details), lane in script:
            getattr(self, f"_{what}")(*details, lane % self.lanes)

    def _publish(self, exchange: str, key: str, lane: int) -> None:
        body = f"m{len(self.published)}"
        self.published.append((exchange, key))
        self.vhost.publish(exchange, key, body, lane=lane)

    def _consume(self, queue: str, channel: str, prefetch: int, lane: int) -> None:
        self.labels += 1
        tag = f"t{self.labels}"
        self.consumers[tag] = (channel, prefetch)
        self.do(commands.Consume(queue=queue, label=tag, prefetch=prefetch, channel=channel), lane)

    def _get(self, queue: str, count: int, auto_ack: bool, lane: int) -> None:
        self.labels += 1
        label = f"t{self.labels}"
        before = len(self.vhost.delivered)
        answer = self.do(
            commands.Get(queue=queue, count=count, label=label, auto_ack=auto_ack, channel="c0"),
            lane,
        )
        got = [each for each in self.vhost.delivered[before:] if each.consumer == label]
        assert len(got) == answer["delivered"] <= count

    def _settle(self, how: str, chosen: list[int], multiple: bool, _lane: int) -> None:
        given = self.vhost.delivered
        if not given:
            return
        channel = given[chosen[0] % len(given)].channel
        mine = [each.name for each in given if each.channel == channel and each.name]
        if not mine:
            return
        refs = tuple(mine[index % len(mine)] for index in chosen)
        command: Command = Ack(refs=refs, multiple=multiple, channel=channel)
        if how != "ack":
            command = Nack(refs=refs, multiple=multiple, requeue=how == "requeue", channel=channel)
        answer = self.do(command)
        assert set(answer.get("missing", ())) <= set(refs)

    def _cut(self, _lane: int) -> None:
        self.vhost.cut()

    def _recover(self, lane: int) -> None:
        self.do(commands.Recover(channel="c0"), lane)

    def _close(self, lane: int) -> None:
        self.do(commands.CloseChannel(channel="c1"), lane)

    def _cancel(self, lane: int) -> None:
        for tag, (channel, _prefetch) in self.consumers.items():
            self.do(commands.Cancel(label=tag, channel=channel), lane)

    def unacked(self) -> Counter[tuple[str, int]]:
        """Unsettled deliveries of each consumer on each lane."""
        found: Counter[tuple[str, int]] = Counter()
        for lane, shard in enumerate(self.vhost.shards):
            for number in shard.state.channels.numbers():
                for consumer in shard.state.channels.by_number(number).consumers.values():
                    found[consumer.label, lane] += consumer.deliveries.unacked
        return found


def births(client: Client) -> Counter[tuple[str, str]]:
    """Queue and body of each copy that came from a publish."""
    return Counter(
        (event.queue, client.vhost.bodies[event.copy.message.offset])
        for events in client.vhost.events
        for event in events
        if event.kind is Kind.ENQUEUED
        and event.copy is not None
        and event.copy.parent_copy_id == NO_COPY
    )


def routed(client: Client, topology: Vhost) -> Counter[tuple[str, str]]:
    """Queue and body of each copy that the publishes must make, by the book."""
    return Counter(
        (name, f"m{number}")
        for number, (exchange, key) in enumerate(client.published)
        for name, (keys, _single, _dead_letters) in topology.queues.items()
        if exchange == "fan" or key in keys
    )


@given(topology=topologies, script=scripts)
def test_every_message_is_in_every_queue_once_and_settled_once_on_its_lane(topology, script):
    client = Client(topology)
    client.play(script)
    client.vhost.cut()

    assert births(client) == routed(client, topology)
    assert Counter(body for body, _ack in client.vhost.confirms) == Counter(
        f"m{number}" for number in range(len(client.published))
    )
    for lane, events in enumerate(client.vhost.events):
        living: dict[int, str] = {}
        for event in events:
            copy = event.copy
            if copy is None:
                continue
            if copy.copy_id == event.seq:
                living[copy.copy_id] = event.queue
            elif event.kind in ENDINGS:
                assert living.pop(copy.copy_id) == event.queue
        shard = client.vhost.shards[lane]
        resident = shard.overview().queues.values()
        assert len(living) == sum(queue.ready + queue.unacked for queue in resident)


@given(topology=topologies, script=scripts)
def test_each_lane_is_first_in_first_out_and_keeps_its_part_of_the_prefetch(topology, script):
    client = Client(topology)
    lanes_of_queue: dict[str, set[int]] = {}
    orders: dict[tuple[str, int], list[int]] = {}

    def look() -> None:
        for (tag, _lane), count in client.unacked().items():
            prefetch = client.consumers.get(tag, ("", 0))[1]
            assert not prefetch or count <= max(prefetch, 1)
        for tag, (_channel, prefetch) in client.consumers.items():
            total = sum(count for (label, _), count in client.unacked().items() if label == tag)
            assert not prefetch or total <= prefetch + client.lanes

    requeued = False
    for step in script:
        client.play([step])
        requeued = requeued or step[0][0] in {"recover", "close"} or step[0][1:2] == ("requeue",)
        look()
    for given_one in client.vhost.delivered:
        if given_one.queue != "dead":
            lanes_of_queue.setdefault(given_one.queue, set()).add(given_one.lane)
            number = int(given_one.body[1:])
            orders.setdefault((given_one.queue, given_one.lane), []).append(number)
    for name, (_keys, single, _dead_letters) in topology.queues.items():
        assert not single or lanes_of_queue.get(name, {0}) == {0}
    if not requeued:
        assert all(order == sorted(order) for order in orders.values())


@given(topology=topologies, script=scripts)
def test_names_are_unique_and_a_purge_leaves_what_depths_add_up(topology, script):
    client = Client(topology)
    client.play(script)

    names = [each.name for each in client.vhost.delivered if each.name]
    assert len(names) == len(set(names))
    for queue in QUEUES:
        ready = sum(client.vhost.depths(queue))
        assert client.do(commands.Depth(queue=queue)) == {"ready": ready}
        assert client.do(commands.Purge(queue=queue)) == {"purged": ready}
        assert client.vhost.depths(queue) == [0] * client.lanes


def test_recorded_scenarios_on_single_lanes_of_four_end_as_with_one_lane():
    scenarios = recorded_for_lanes()[::7]

    differing = [
        scenario.id
        for compat in VERSIONS
        for scenario in scenarios
        if play(on_single_lanes(scenario), compat, lanes=4) != play(scenario, compat)
    ]

    assert differing == []
