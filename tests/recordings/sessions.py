"""Sessions of AMQP clients as RabbitMQ 3.10.8 and 4.0.5 played them, packed into one file.

What no scenario can say: transactions. `written` are sessions for one question each; the others are
those of `tests.sessions` of the kind `transactions`, by their seeds. Of each version's plays, three
had to be equal (confirms in any order); else the version is missing.

    python -m tests.recordings.sessions            asks nodes of `python -m tests.oracle` again
    python -m tests.recordings.sessions NAME...    records only these again

A session is `{"steps": [[connection, channel, op, arguments], ...], "records": {version: record}}`.
"""

import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from streaming.scenario.document import VERSIONS as RECORDED
from tests.oracle.nodes import Node
from tests.sessions.comparing import difference
from tests.sessions.kinds import session
from tests.sessions.player import Player, Record
from tests.sessions.steps import Step

FILE: Final = Path(__file__).with_name("sessions.json.xz")
SEEDS: Final = range(1000, 1020)
PLAYS: Final = 3
_VHOST: Final = "recorded-sessions"
_QUORUM: Final = {"x-queue-type": "quorum"}
_REJECTS: Final = {"x-max-length": 1, "x-overflow": "reject-publish"}


class RecordedSession(msgspec.Struct):
    """A session and what clients of each version saw of it."""

    steps: list[tuple[int, int, str, dict[str, Any]]]
    records: dict[str, Record]

    def played(self) -> list[Step]:
        """The steps, to be played."""
        return [Step(*step) for step in self.steps]


def recorded_sessions() -> dict[str, RecordedSession]:
    """The sessions by name."""
    text = lzma.decompress(FILE.read_bytes())
    return msgspec.json.decode(text, type=dict[str, RecordedSession])


def written() -> dict[str, list[Step]]:
    """Sessions about one question each: what happens between a publish and its commit."""
    return {
        **{
            f"{name}, {kind}{returned}": list(_changing(changes, arguments, mandatory=mandatory))
            for name, changes in _CHANGES.items()
            for kind, arguments in (("classic", {}), ("quorum", _QUORUM))
            for mandatory, returned in ((False, ""), (True, ", mandatory"))
        },
        "a full queue refuses": list(_refusing(_REJECTS, count=3)),
        "a full queue dead-letters": list(
            _refusing(
                {
                    **_REJECTS,
                    "x-overflow": "reject-publish-dlx",
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-routing-key": "q1",
                },
                count=3,
            )
        ),
        "a full quorum queue refuses": [
            step for _ in range(4) for step in _refusing({**_QUORUM, **_REJECTS}, count=1)
        ],
        "publishes come before settlements": list(_settling("reject", requeue=False)),
        "what is requeued": list(_settling("nack", requeue=True)),
        "what is acknowledged": list(_settling("ack", requeue=False)),
        "a commit that fails has settled": list(_settling_in_vain()),
        "a quorum limit acts behind consumers": list(_returning_to_another()),
        **{
            f"two consumers of a {kind} queue {name}": list(_in_parts(end, arguments))
            for name, end in _ENDS.items()
            for kind, arguments in (("classic", {}), ("quorum", _QUORUM))
        },
    }


def _declare(name: str, arguments: dict[str, Any]) -> Step:
    return _step("declare_queue", queue=name, durable=True, arguments=arguments)


def _delete(name: str) -> Step:
    return _step("delete_queue", queue=name)


def _bind(op: str, queue: str, key: str = "k") -> Step:
    rest = {"nowait": False} if op == "unbind" else {}
    return _step(
        op,
        destination=queue,
        source="e0",
        routing_key=key,
        arguments={},
        to_exchange=False,
        **rest,
    )


def _publish(body: str, exchange: str = "", key: str = "q0", *, mandatory: bool = False) -> Step:
    return _step(
        "publish",
        1,
        exchange=exchange,
        routing_key=key,
        properties={},
        body=body,
        mandatory=mandatory,
    )


def _transaction(kind: str) -> Step:
    return _step("transaction", 1, kind=kind)


def _empty(name: str) -> list[Step]:
    return [_step("get", queue=name, no_ack=True) for _ in range(4)]


def _step(op: str, channel: int = 2, **arguments: Any) -> Step:
    return Step(0, channel, op, arguments)


_CHANGES: Final[dict[str, list[Any]]] = {
    "the binding goes": [("unbind", "q0")],
    "another binding comes": [("bind", "q2")],
    "the exchange goes": ["delete_exchange"],
    "a queue goes": ["delete q0"],
    "a queue goes and comes": ["delete q0", "declare q0"],
    "both queues go": ["delete q0", "delete q1"],
    "a queue of the other type comes": ["delete q0", "swap q0"],
    "a queue comes that was missing": ["declare q3"],
}


def _changing(changes: list[Any], arguments: dict[str, Any], *, mandatory: bool) -> Iterator[Step]:
    """Publish through an exchange and to queues by name, change something, commit."""
    for name in ("q0", "q1", "q2"):
        yield _declare(name, arguments)
    yield _step("declare_exchange", exchange="e0", exchange_type="direct")
    yield _bind("bind", "q0")
    yield _bind("bind", "q1")
    yield _transaction("select")
    for body, exchange, key in (
        ("both", "e0", "k"),
        ("q0", "", "q0"),
        ("none", "e0", "other"),
        ("q3", "", "q3"),
    ):
        yield _publish(body, exchange, key, mandatory=mandatory)
    for change in changes:
        if isinstance(change, tuple):
            yield _bind(*change)
            continue
        what, _, name = change.partition(" ")
        if what == "delete":
            yield _delete(name)
        elif what == "delete_exchange":
            yield _step("delete_exchange", exchange="e0")
        else:
            swapped = {} if arguments else _QUORUM
            yield _declare(name, swapped if what == "swap" else arguments)
    yield _transaction("commit")
    for name in ("q0", "q1", "q2", "q3"):
        yield from _empty(name)


def _refusing(arguments: dict[str, Any], count: int) -> Iterator[Step]:
    yield _declare("q0", arguments)
    for name in ("q1", "q2"):
        yield _declare(name, {})
    yield _transaction("select")
    for number in range(count):
        yield _publish(f"m{number}")
    yield _publish("other", key="q2")
    yield _transaction("commit")
    yield from (*_empty("q1"), *_empty("q2"))
    yield _transaction("select")


def _settling(kind: str, *, requeue: bool) -> Iterator[Step]:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"}
    yield _declare("q0", dead)
    yield _declare("q1", {})
    for number in range(4):
        yield _publish(f"d{number}")
    yield _transaction("select")
    for _ in range(4):
        yield _step("get", 1, queue="q0", no_ack=False)
    for which in (2, 0):
        yield _step("settle", 1, kind=kind, which=which, multiple=False, requeue=requeue)
    yield _publish("p0", key="q1")
    yield _publish("p1", key="q0")
    yield _step("settle", 1, kind="ack", which=0, multiple=False, requeue=False)
    yield _step("settle", 1, kind=kind, which=0, multiple=True, requeue=requeue)
    yield _transaction("commit")
    for name in ("q0", "q1"):
        yield from _empty(name)


def _settling_in_vain() -> Iterator[Step]:
    yield _declare("q0", {})
    yield _declare("q1", {})
    yield _publish("d", key="q1")
    yield _step("get", 1, queue="q1", no_ack=False)
    yield _transaction("select")
    yield _publish("p")
    yield _step("settle", 1, kind="ack", which=0, multiple=False, requeue=False)
    yield _delete("q0")
    yield _transaction("commit")
    yield from _empty("q1")


def _returning_to_another() -> Iterator[Step]:
    yield _declare("q0", {**_QUORUM, "x-max-length": 1})
    consumer = {"queue": "q0", "no_ack": False, "arguments": {}}
    yield _step("consume", 1, consumer_tag="first", **consumer)
    for number in range(3):
        yield _publish(f"m{number}")
    yield _step("consume", 2, consumer_tag="second", **consumer)
    yield _step("close_channel", 1)


_ENDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "recover": ("recover", {"requeue": True, "is_async": False}),
    "requeue": ("settle", {"kind": "nack", "which": 8, "multiple": True, "requeue": True}),
    "reject": ("settle", {"kind": "nack", "which": 8, "multiple": True, "requeue": False}),
    "acknowledge": ("settle", {"kind": "ack", "which": 8, "multiple": True, "requeue": False}),
    "go": ("close_channel", {}),
}
"""What happens to all that a channel holds of a queue."""


def _in_parts(end: tuple[str, dict[str, Any]], arguments: dict[str, Any]) -> Iterator[Step]:
    """Two gets, two consumers, whose tags are not in the order of their age, and more gets."""
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"}
    yield _declare("q0", {**arguments, **dead})
    yield _declare("q1", {})
    for number in range(20):
        yield _publish(f"m{number:02}")
    yield _step("get", 1, queue="q0", no_ack=False)
    yield _step("qos", 1, prefetch_count=2, prefetch_size=0, global_=False)
    for tag in ("b", "a"):
        yield _step("consume", 1, queue="q0", consumer_tag=tag, no_ack=False, arguments={})
    for _ in range(2):  # so that each has every other delivery
        yield _step("settle", 1, kind="ack", which=3, multiple=False, requeue=False)
    for _ in range(4):
        yield _step("get", 1, queue="q0", no_ack=False)
    op, how = end
    yield _step(op, 1, **how)
    for name in ("q0", "q1"):
        for _ in range(12):
            yield _step("get", queue=name, no_ack=True)


def main(names: list[str]) -> None:
    """Play sessions on every version; keep what is reproducible."""
    sessions = written()
    sessions |= {f"transactions {seed}": session(seed, kind="transactions") for seed in SEEDS}
    found = recorded_sessions() if names else {}
    sessions = {name: steps for name, steps in sessions.items() if not names or name in names}
    found |= {
        name: RecordedSession([(s.connection, s.channel, s.op, s.arguments) for s in steps], {})
        for name, steps in sessions.items()
    }
    for compat, version in RECORDED.items():
        url = Node(compat).add_vhost(_VHOST)
        for name, steps in sessions.items():
            records = [Player(url).play(steps) for _ in range(PLAYS)]
            if any(difference(steps, records[0], other) for other in records[1:]):
                sys.stdout.write(f"{name}: not reproducible on {version}\n")
                continue
            found[name].records[version] = records[0]
    text = json.dumps(msgspec.to_builtins(found), separators=(",", ":"))
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    sys.stdout.write(f"{len(found)} sessions\n")


if __name__ == "__main__":
    main(sys.argv[1:])
