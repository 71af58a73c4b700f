"""Random topologies and scripts with every command and publish, valid or not."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.redrive_letters import Letter, RedriveOptions, StoredLetter, Target
from tests.property.broker.declarations import (
    CHANNELS,
    EXCHANGES,
    QUEUES,
    bindings,
    channels,
    connections,
    documents,
    exchange_declarations,
    keys,
    labels,
    names,
    operator_policies,
    patterns,
    policies,
    queue_declarations,
    queues,
    small,
    sources,
    users,
)
from topology.declarations import Queue


class Publish(msgspec.Struct, frozen=True):
    """A publish of a script."""

    exchange: str
    routing_key: str
    size: int
    properties: dict[str, Any]
    headers: dict[str, Any] | None
    flags: int
    channel: str
    user: str | None


class Step(msgspec.Struct, frozen=True):
    """A pause, and the action after it."""

    after_ms: int
    action: Publish | Command
    user: str | None = None


_given_deaths = st.lists(
    st.fixed_dictionaries(
        {"queue": queues, "reason": st.sampled_from(["rejected", "expired", "maxlen"])},
        optional={"count": st.integers(0, 3) | st.sampled_from([10**30, "x", True])},
    )
    | st.just("odd"),
    max_size=3,
)
_headers = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "CC": st.lists(keys | st.just(1), max_size=2) | st.just("not a list"),
        "BCC": st.lists(keys, max_size=2),
        "h": st.sampled_from([1, 1.0, None, b"x", 10**30, [1, {"a": True}]]),
        "x-death": _given_deaths | st.just("odd"),
    },
)
_properties = st.fixed_dictionaries(
    {},
    optional={
        "expiration": st.sampled_from(["0", "1", "5", "+20", "x", "-1"]),
        "priority": st.sampled_from([0, 1, 5, 9, -1, 10**30, True]),
        "message_id": st.just("m"),
    },
)
_plain_publishes = st.builds(
    Publish,
    exchange=st.just(""),
    routing_key=queues,
    size=small,
    properties=st.just({}),
    headers=st.none(),
    flags=st.just(0),
    channel=st.just("pub"),
    user=st.none(),
)
_any_publishes = st.builds(
    Publish,
    exchange=sources | st.just(""),
    routing_key=keys,
    size=small,
    properties=_properties,
    headers=_headers,
    flags=st.sampled_from([0, 0, 0, 1, 2, 4, 5, 7]),
    channel=channels | st.just("pub"),
    user=users,
)

publishes = st.one_of(_plain_publishes, _any_publishes)

_refs = st.lists(
    st.one_of(
        st.builds("{}/{}".format, labels, st.integers(0, 1)),
        st.builds("{}/{}".format, labels, small),
        st.builds("{}/{}".format, labels, small),
        st.builds("{}.{}.{}".format, st.integers(1, 3), st.integers(0, 2), small),
        st.sampled_from(["", "/", "a/", "a/x", "1.2", "9" * 5000, "a/" + "9" * 5000]),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
_maybe_channel = st.sampled_from([None, None, None, *CHANNELS])

gets = st.builds(
    commands.Get,
    queue=queues,
    count=st.integers(0, 3),
    message=st.none() | st.builds("0/0/{}".format, small),
    label=st.none() | labels | labels,
    auto_ack=st.sampled_from([False, False, True]),
    channel=channels,
)
consumes = st.builds(
    commands.Consume,
    queue=queues,
    label=labels,
    prefetch=st.integers(0, 2),
    auto_ack=st.sampled_from([False, False, True]),
    channel=channels,
)
_given_up = {"refs": _refs, "requeue": st.booleans(), "channel": _maybe_channel} | {
    "reason": st.sampled_from([None, None, "no stock", "\ud834 declined", "é" * 600])
}
settlements = st.one_of(
    st.builds(commands.Ack, refs=_refs, multiple=st.booleans(), channel=_maybe_channel),
    st.builds(commands.Reject, **_given_up),
    st.builds(commands.Nack, multiple=st.booleans(), **_given_up),
)
checks = st.builds(
    commands.Check,
    steps=st.lists(
        st.builds(
            commands.CheckedPublish,
            exchange=sources,
            expiration=st.none() | st.sampled_from(["5", "x"]),
            headers=st.sampled_from([{}, {"CC": 1}]),
        )
        | settlements,
        max_size=4,
    ).map(tuple),
    channel=channels,
)
sessions = st.one_of(
    st.builds(commands.Cancel, label=labels, channel=_maybe_channel),
    st.builds(commands.Recover, channel=channels),
    st.builds(commands.OpenChannel, channel=channels, lease_ms=st.none() | st.just(15)),
    st.builds(commands.OpenChannel, channel=channels | st.just("c2"), connection=connections),
    st.builds(commands.CloseConnection, connection=connections),
    st.builds(commands.Renew, channel=channels),
    checks,
    st.builds(commands.CloseChannel, channel=channels),
)
administration = st.one_of(
    st.builds(commands.DeclareQueue, queue=queue_declarations(), channel=channels),
    st.builds(
        commands.DeclareQueue,
        queue=st.builds(Queue, queues),
        passive=st.booleans(),
        channel=channels,
    ),
    st.builds(commands.DeclareExchange, exchange=exchange_declarations),
    st.builds(commands.Bind, binding=bindings, channel=channels),
    st.builds(commands.Unbind, binding=bindings),
    st.builds(commands.Depth, queue=queues),
    st.builds(commands.Purge, queue=queues),
    st.builds(commands.DeleteQueue, queue=queues, if_unused=st.booleans(), if_empty=st.booleans()),
    st.builds(commands.DeleteExchange, exchange=sources, if_unused=st.booleans()),
    st.builds(commands.SetPolicy, policy=policies),
    st.builds(commands.SetOperatorPolicy, policy=operator_policies),
    st.builds(commands.ClearPolicy, name=names),
    st.builds(commands.ClearOperatorPolicy, name=names),
    st.builds(commands.Tick),
    st.builds(commands.ExportDefinitions),
    st.builds(
        commands.SetPermissions,
        user=st.just("ann"),
        configure=patterns,
        write=patterns,
        read=st.sampled_from(["", "("]) | patterns,
    ),
    st.builds(commands.ClearPermissions, user=st.just("ann")),
    st.builds(
        commands.SetTopicPermissions,
        user=st.just("ann"),
        exchange=sources,
        write=patterns,
        read=st.sampled_from(["", "("]) | patterns,
    ),
    st.builds(commands.ClearTopicPermissions, user=st.just("ann"), exchange=st.none() | sources),
    st.builds(
        commands.SetVhostLimit,
        limit=st.just("max-queues"),
        value=st.sampled_from([-1, 0, 3]),
    ),
    st.builds(commands.ClearVhostLimit, limit=st.just("max-queues")),
    st.builds(
        commands.SetParameter,
        component=st.just("user"),
        name=st.sampled_from(["ann", "bob"]),
        value=st.sampled_from(["{}", '{"tags":[]}']),
        secret=st.none() | st.just("hash"),
    ),
    st.builds(
        commands.Deployed,
        service=names,
        version=st.sampled_from(["", "1.0"]),
        queues=st.lists(queues, max_size=2).map(tuple),
        reason=st.none() | st.just("fix"),
    ),
    st.builds(commands.ImportDefinitions, definitions=documents),
)


_targets = st.one_of(
    st.builds(Target, queue=queues, exchange=sources, routing_keys=st.tuples(keys)),
    st.builds(Target, queue=st.none(), exchange=sources, routing_keys=st.tuples(keys)),
)
_stored_letters = st.builds(
    StoredLetter,
    message=st.tuples(st.just(0), st.just(0), small),
    size=small,
    priority=st.integers(0, 9),
    headers=st.none() | st.just('{"h": 1}'),
    deaths=st.sampled_from([(), ((1, "rejected", "q0", 0, "", ("k",), "5"),)]),
)


@st.composite
def redrives(draw: st.DrawFn) -> commands.Redrive:
    """A redrive of a few copies of low numbers, which may or may not be in their queues."""
    copy_ids = draw(st.lists(st.integers(1, 120), max_size=12))
    target = draw(_targets)
    stored = draw(st.sampled_from([None, None, None]) | _stored_letters)
    queue = draw(queues)
    action = draw(st.sampled_from(["redrive", "redrive", "discard", "restore"]))
    sealed = [
        Letter(
            draw(st.sampled_from([0, 0, 0, 1])),
            copy_id,
            queue,
            target if action != "discard" or stored is not None else None,
            0,
            stored,
        )
        for copy_id in copy_ids
    ]
    options = RedriveOptions(
        action=action,
        expiration=draw(st.sampled_from(["drop", "keep", "restart"])),
        x_death=draw(st.sampled_from(["keep", "clear"])),
        rate=draw(st.sampled_from([None, None, 20, 500])),
        ceiling=draw(st.sampled_from([None, None, 1, 3])),
        canary=draw(st.sampled_from([0, 0, 1, 2])),
        stop_after=draw(st.sampled_from([None, None, 1])),
        stop_percent=draw(st.sampled_from([None, None, 50])),
        cap=draw(st.sampled_from([1, 3])),
    )
    first = draw(st.sampled_from([0, 0, 0, 0, 2]))
    return commands.Redrive(
        id=draw(st.sampled_from(["r0", "r1", "r2", "r3"])),
        reason="x",
        seal=draw(st.sampled_from(["s", "s", "s", "t"])),
        total=draw(st.sampled_from([len(sealed), len(sealed), len(sealed) + 2])),
        first=first,
        letters=tuple(sealed),
        options=options,
    )


repairs = st.one_of(
    redrives(),
    redrives(),
    st.builds(
        commands.ControlRedrive,
        id=st.sampled_from(["r0", "r1", "r2", "r3"]),
        action=st.sampled_from(["pause", "resume", "resume", "cancel", "status"]),
        reason=st.just("x"),
    ),
)


def _step(actions: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.sampled_from([0, 0, 0, 1, 4, 30]), actions, users)


steps = st.one_of(
    _step(publishes),
    _step(publishes),
    _step(publishes),
    _step(gets),
    _step(settlements),
    _step(gets),
    _step(consumes),
    _step(settlements),
    _step(settlements),
    _step(sessions),
    _step(administration),
    _step(repairs),
)


@st.composite
def topologies(draw: st.DrawFn) -> list[Step]:
    """All exchanges, all queues and a few bindings and policies, declared at once."""
    orders: list[Command] = []
    for name in EXCHANGES:
        exchange = msgspec.structs.replace(draw(exchange_declarations), name=name)
        orders.append(commands.DeclareExchange(exchange=exchange))
    declared = [draw(queue_declarations(name)) for name in QUEUES]
    orders += [commands.DeclareQueue(queue=queue, channel="c0") for queue in declared]
    orders += [
        commands.Bind(binding=binding, channel="c0")
        for binding in draw(st.lists(bindings, max_size=8))
    ]
    orders += [commands.SetPolicy(policy=policy) for policy in draw(st.lists(policies, max_size=2))]
    return [Step(0, order) for order in orders]


@st.composite
def scripts(draw: st.DrawFn, most: int = 60) -> list[Step]:
    """A topology and a script that ends by emptying every queue."""
    script = draw(topologies())
    script += [draw(steps) for _ in range(draw(st.integers(0, most)))]  # lists() would be short
    script.append(Step(10, commands.Tick()))
    script += [
        Step(0, commands.Get(queue=name, count=10_000, auto_ack=True, channel="drain"))
        for name in QUEUES
    ]
    return script
