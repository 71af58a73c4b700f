"""A session: what two connections do, in an order that a seed decides.

Its kind says what it is about: everything (`classic`), quorum queues, times (`timers`), what one
client's end does to the others (`errors`), or `transactions`.

Steps name no delivery tag, no generated name, and assume no state: `settle` means "some unacked
delivery of this channel", and the player opens what is closed. So a session stays meaningful
when steps are taken out of it, and whatever a broker answers.
"""

import random
from dataclasses import dataclass
from typing import Any, Final, Literal

QUEUES: Final = ("q0", "q1", "q2", "q3")
EXCHANGES: Final = ("e0", "e1", "e2")
TYPES: Final = ("direct", "fanout", "topic", "headers")
KEYS: Final = ("a", "a.b", "a.b.c", "b", "")
PATTERNS: Final = ("a", "a.b", "#", "a.*", "*.b.#", "b", "")
LENGTH: Final = 40
CHANNELS: Final = (1, 2)
CONNECTIONS: Final = (0, 1)

Kind = Literal["classic", "quorum", "timers", "errors", "transactions"]
KINDS: Final[tuple[Kind, ...]] = ("classic", "quorum", "timers", "errors", "transactions")

SHORT_MS: Final = 300
"""A time after which something ends: a wait sees the end of four in a row."""

LONG_MS: Final = 2600
"""A time that the second of two waits sees the end of."""

WAIT_S: Final = 1.6
STEPS_BETWEEN_WAITS: Final = 8
"""So few that what they take does not count beside the times above."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a client does.

    Attributes:
        op: the name of a function of the player.
        arguments: of that function.
    """

    connection: int
    channel: int
    op: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items() if value)
        return f"{self.connection}/{self.channel} {self.op}({shown})"


def session(
    seed: int,
    length: int = LENGTH,
    without: frozenset[str] = frozenset(),
    kind: Kind = "classic",
) -> list[Step]:
    """The session of a seed.

    Args:
        without: arguments, names of steps, and `exclusive-consumers`, to leave out.
    """
    make = _MAKERS[kind](random.Random(seed), without)
    steps = [make.declare_queue(name) for name in QUEUES]
    steps += [make.declare_exchange(name) for name in EXCHANGES]
    steps += [make.bind() for _ in QUEUES]
    steps += [make.step() for _ in range(length)]
    if kind == "timers":
        steps = _with_waits(steps)
    return [step for step in steps if step.op not in without]


def _with_waits(steps: list[Step]) -> list[Step]:
    """Let time pass between steps, always after as few."""
    wait = Step(*WAITING, "wait", {"seconds": WAIT_S})
    waited: list[Step] = []
    for number, step in enumerate(steps, 1):
        waited.append(step)
        if number % STEPS_BETWEEN_WAITS == 0:
            waited.append(wait)
    return [*waited, wait]


WAITING: Final = (CONNECTIONS[0], CHANNELS[0])
"""Where a step is noted that no client takes."""


class _Maker:
    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        self._chance = chance
        self._without = without
        self._number = 0
        self._fed = {(c, n): chance.choice(QUEUES) for c in CONNECTIONS for n in CHANNELS}
        self._weights = {
            self.declare_queue: 6,
            self.declare_exchange: 4,
            self.bind: 6,
            self.unbind: 2,
            self.publish: 30,
            self.consume: 10,
            self.cancel: 4,
            self.get: 8,
            self.settle: 22,
            self.settle_unknown: 1,
            self.qos: 6,
            self.recover: 3,
            self.purge: 2,
            self.delete_queue: 2,
            self.delete_exchange: 2,
            self.confirm: 2,
            self.transaction: 5,
            self.close_channel: 2,
            self.close_connection: 1,
            self.error: 1,
        }

    def step(self) -> Step:
        """A step of any kind."""
        (make,) = self._chance.choices(list(self._weights), list(self._weights.values()))
        return make()

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue: by name or named by the broker, with arguments, or asked for alone."""
        passive = name is None and self._seldom(0.2)
        if name is None:
            name = self._pick((*QUEUES, ""))
        return self._step(
            "declare_queue",
            queue=name,
            passive=passive,
            durable=self._seldom(0.3),
            exclusive=self._seldom(0.06),
            auto_delete=self._seldom(0.2),
            nowait=name != "" and self._seldom(0.1),
            arguments=self._queue_arguments(),
        )

    def _queue_arguments(self) -> dict[str, Any]:
        arguments = self._arguments_of_queue()
        return {name: value for name, value in arguments.items() if name not in self._without}

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self._seldom(0.3):
            arguments["x-max-length"] = self._pick((0, 1, 2, 3))
            if self._seldom(0.5):
                overflow = ("drop-head", "reject-publish", "reject-publish-dlx")
                arguments["x-overflow"] = self._pick(overflow)
        if self._seldom(0.3):
            arguments["x-dead-letter-exchange"] = self._pick(("", *EXCHANGES, "amq.fanout"))
            if self._seldom(0.5):
                arguments["x-dead-letter-routing-key"] = self._pick((*QUEUES, *KEYS))
        if self._seldom(0.1):
            arguments["x-message-ttl"] = self._pick((0, 100_000))
        if self._seldom(0.2):
            arguments["x-max-priority"] = self._pick((1, 5))
        if self._seldom(0.15):
            arguments["x-single-active-consumer"] = True
        if self._seldom(0.03):
            arguments[self._pick(("x-max-length", "x-message-ttl", "x-expires"))] = self._pick(
                (-1, "x", True)
            )
        return arguments

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange, seldom one that may not be declared."""
        passive = name is None and self._seldom(0.2)
        if name is None:
            name = self._pick((*EXCHANGES, *EXCHANGES, "", "amq.mine"))
        arguments = {}
        if self._seldom(0.2):
            arguments["alternate-exchange"] = self._pick((*EXCHANGES, "amq.fanout"))
        return self._step(
            "declare_exchange",
            exchange=name,
            exchange_type=self._pick(TYPES),
            passive=passive,
            durable=self._seldom(0.3),
            auto_delete=self._seldom(0.15),
            internal=self._seldom(0.08),
            nowait=self._seldom(0.1),
            arguments=arguments,
        )

    def bind(self) -> Step:
        """A binding of a queue or an exchange."""
        return self._binding("bind")

    def unbind(self) -> Step:
        """The end of a binding, which may not exist."""
        return self._binding("unbind")

    def _binding(self, op: str) -> Step:
        source = self._pick((*EXCHANGES, *EXCHANGES, "amq.topic", "amq.headers", "amq.fanout", ""))
        arguments: dict[str, Any] = {}
        if self._seldom(0.3):
            arguments = {"kind": self._pick((1, "x"))}
            if self._seldom(0.6):
                arguments["x-match"] = self._pick(("all", "any", "all-with-x", "any-with-x"))
        to_exchange = self._seldom(0.2)
        return self._step(
            op,
            destination=self._pick(EXCHANGES if to_exchange else (*QUEUES, "")),
            source=source,
            routing_key=self._pick(PATTERNS),
            arguments=arguments,
            to_exchange=to_exchange,
            nowait=op == "bind" and self._seldom(0.1),
        )

    def publish(self) -> Step:
        """A message; most go where something is bound."""
        exchange = self._pick(("", "", "", *EXCHANGES, "amq.topic", "amq.headers", "amq.fanout"))
        properties: dict[str, Any] = {}
        if self._seldom(0.3):
            properties["delivery_mode"] = self._pick((1, 2))
        if self._seldom(0.2):
            properties["priority"] = self._pick((0, 1, 3, 9))
        if self._seldom(0.1):
            properties["expiration"] = self._pick(("0", "100000"))
        if self._seldom(0.2):
            headers: dict[str, Any] = {"kind": self._pick((1, "x"))}
            if self._seldom(0.3):
                headers[self._pick(("CC", "BCC"))] = [self._pick((*QUEUES, *KEYS))]
            properties["headers"] = headers
        if self._seldom(0.1):
            properties["message_type"] = "t"
            properties["correlation_id"] = "c"
        if self._seldom(0.02):
            properties["expiration"] = self._pick(("x", "-1"))
        if self._seldom(0.02):
            properties["user_id"] = self._pick(("guest", "other"))
        self._number += 1
        size = self._pick((0, 1, 30, 4088, 4089, 10_000)) if self._seldom(0.15) else 5
        return self._step(
            "publish",
            exchange=exchange,
            routing_key=self._pick(QUEUES if exchange == "" else (*KEYS, *QUEUES)),
            mandatory=self._seldom(0.2),
            properties=properties,
            body=f"{self._number:05}".ljust(size, ".")[:size],
        )

    def consume(self) -> Step:
        """A consumer; those of a channel share a queue, for the order of two queues is chance."""
        step = self._step("consume")
        queue = self._fed[step.connection, step.channel]
        arguments = {"x-priority": self._pick((-1, 0, 1, 5))} if self._seldom(0.3) else {}
        if "x-priority" in self._without:
            arguments = {}
        step.arguments.update(
            queue=queue,
            consumer_tag=self._pick(("", "t0", "t1", "t2")),
            no_ack=self._seldom(0.2),
            exclusive=self._seldom(0.1) and "exclusive-consumers" not in self._without,
            nowait=False,
            arguments=arguments,
        )
        return step

    def cancel(self) -> Step:
        """The end of a consumer, which may not exist."""
        return self._step("cancel", which=self._chance.randrange(3), nowait=self._seldom(0.1))

    def get(self) -> Step:
        """One message on request."""
        return self._step("get", queue=self._pick(QUEUES), no_ack=self._seldom(0.3))

    def settle(self) -> Step:
        """Ack, reject or nack one delivery, or all up to it."""
        kind = self._pick(("ack", "ack", "ack", "reject", "nack"))
        return self._step(
            "settle",
            kind=kind,
            which=self._chance.randrange(6),
            multiple=kind != "reject" and self._seldom(0.25),
            requeue=kind != "ack" and self._seldom(0.5),
        )

    def settle_unknown(self) -> Step:
        """Settle what was not delivered, or all with tag 0."""
        kind = self._pick(("ack", "nack", "reject"))
        tag = self._pick((0, 0, 1_000_000))
        multiple = kind != "reject" and self._seldom(0.6)
        return self._step(
            "settle_tag", kind=kind, tag=tag, multiple=multiple, requeue=self._seldom(0.5)
        )

    def qos(self) -> Step:
        """A limit for consumers to come, or for the channel."""
        size = 1000 if self._seldom(0.02) else 0
        return self._step(
            "qos",
            prefetch_count=self._pick((0, 1, 1, 2, 3, 10)),
            prefetch_size=size,
            global_=self._seldom(0.4),
        )

    def recover(self) -> Step:
        """All unacked deliveries of the channel return, or are asked for again."""
        return self._step("recover", requeue=not self._seldom(0.05), is_async=self._seldom(0.3))

    def purge(self) -> Step:
        """Empty a queue."""
        return self._step("purge", queue=self._pick((*QUEUES, "")), nowait=self._seldom(0.1))

    def delete_queue(self) -> Step:
        """Delete a queue, perhaps on conditions."""
        return self._step(
            "delete_queue",
            queue=self._pick((*QUEUES, "")),
            if_unused=self._seldom(0.3),
            if_empty=self._seldom(0.3),
        )

    def delete_exchange(self) -> Step:
        """Delete an exchange, perhaps on a condition."""
        name = self._pick(EXCHANGES) if not self._seldom(0.1) else self._pick(("", "amq.topic"))
        return self._step("delete_exchange", exchange=name, if_unused=self._seldom(0.4))

    def confirm(self) -> Step:
        """Confirm mode."""
        return self._step("confirm", nowait=self._seldom(0.1))

    def transaction(self) -> Step:
        """Transactional mode, and its ends."""
        return self._step(
            "transaction", kind=self._pick(("select", "commit", "commit", "rollback"))
        )

    def close_channel(self) -> Step:
        """The client closes a channel."""
        return self._step("close_channel")

    def close_connection(self) -> Step:
        """The client closes a connection, or its socket."""
        return self._step("close_connection", abruptly=self._seldom(0.5))

    def error(self) -> Step:
        """What ends a channel or a connection."""
        kinds = ("immediate", "open_twice", "flow_off", "no_exchange", "no_queue", "access")
        return self._step("error", kind=self._pick(kinds))

    def _step(self, op: str, **arguments: Any) -> Step:
        connection = self._chance.choice(CONNECTIONS)
        return Step(connection, self._chance.choice(CHANNELS), op, arguments)

    def _pick(self, choices: Any) -> Any:
        return self._chance.choice(choices)

    def _seldom(self, share: float) -> bool:
        return self._chance.random() < share


class _QuorumMaker(_Maker):
    """Most queues are quorum queues, with delivery limits; messages return often."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.settle: 40, self.declare_queue: 4, self.transaction: 2}
        self._has_single = False

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue, whose type decides what else it may be."""
        step = super().declare_queue(name)
        if step.arguments["arguments"].get("x-queue-type") == "quorum" and not self._seldom(0.05):
            step.arguments.update(durable=True, exclusive=False)
        return step

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments = super()._arguments_of_queue()
        if not self._seldom(0.75):
            return arguments
        arguments["x-queue-type"] = "quorum"
        self._has_single |= "x-single-active-consumer" in arguments
        if not self._seldom(0.05):
            arguments.pop("x-max-priority", None)
            if arguments.get("x-overflow") == "reject-publish-dlx":
                arguments["x-overflow"] = "reject-publish"
        if self._seldom(0.5):
            arguments["x-delivery-limit"] = self._pick((0, 1, 2, 3))
        return arguments

    def consume(self) -> Step:
        """A consumer, without priority if there is a single active one (end of R-CONS-6)."""
        step = super().consume()
        if self._has_single:
            step.arguments["arguments"] = {}
        return step

    def qos(self) -> Step:
        """A limit; quorum queues refuse one that is global."""
        step = super().qos()
        step.arguments["global_"] = self._seldom(0.05)
        return step


class _TimersMaker(_Maker):
    """Messages and queues end while nobody does anything."""

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments = super()._arguments_of_queue()
        if self._seldom(0.6):
            arguments["x-message-ttl"] = self._pick((0, SHORT_MS, SHORT_MS, LONG_MS))
        if self._seldom(0.15):
            arguments["x-expires"] = self._pick((SHORT_MS, LONG_MS))
        if self._seldom(0.5):
            arguments.setdefault("x-dead-letter-exchange", self._pick(("", *EXCHANGES)))
            arguments.setdefault("x-dead-letter-routing-key", self._pick(QUEUES))
        return arguments

    def publish(self) -> Step:
        """A message, often with a time to live."""
        step = super().publish()
        if self._seldom(0.3):
            step.arguments["properties"]["expiration"] = str(
                self._pick((0, SHORT_MS, SHORT_MS, LONG_MS))
            )
        return step


class _ErrorsMaker(_Maker):
    """Clients take from the same queues, and end in every way while others hold messages."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        shared = chance.choice(QUEUES)
        self._fed = {each: shared if self._seldom(0.7) else fed for each, fed in self._fed.items()}
        self._weights |= {
            self.consume: 24,
            self.qos: 12,
            self.delete_queue: 5,
            self.settle_unknown: 4,
            self.close_channel: 8,
            self.close_connection: 6,
            self.error: 12,
        }

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue, often exclusive, dead-lettering to one that has consumers."""
        step = super().declare_queue(name)
        if self._seldom(0.2):
            step.arguments["exclusive"] = True
        if self._seldom(0.5):
            step.arguments["arguments"] |= {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": self._pick(QUEUES),
            }
        return step

    def publish(self) -> Step:
        """A message, most to the queues that have consumers."""
        step = super().publish()
        if self._seldom(0.5):
            step.arguments.update(exchange="", routing_key=self._pick(sorted(self._fed.values())))
        return step


class _TransactionsMaker(_Maker):
    """Clients publish and settle in transactions, while exchanges, queues and bindings change."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.transaction: 30,
            self.declare_queue: 10,
            self.bind: 12,
            self.unbind: 8,
            self.delete_queue: 8,
            self.delete_exchange: 4,
            self.consume: 6,
            self.confirm: 0,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        if self._seldom(0.6):  # so that a deleted queue can be declared again
            return {}
        if self._seldom(0.15):
            return {"x-queue-type": "quorum"}
        return super()._arguments_of_queue()

    def transaction(self) -> Step:
        """Transactional mode and its ends; a commit is the most frequent."""
        kinds = ("select", "select", "commit", "commit", "commit", "rollback")
        return self._step("transaction", kind=self._pick(kinds))

    def delete_queue(self) -> Step:
        """Delete a queue, mostly without conditions."""
        step = super().delete_queue()
        if self._seldom(0.6):
            step.arguments.update(if_unused=False, if_empty=False)
        return step


_MAKERS: Final[dict[Kind, type[_Maker]]] = {
    "classic": _Maker,
    "quorum": _QuorumMaker,
    "timers": _TimersMaker,
    "errors": _ErrorsMaker,
    "transactions": _TransactionsMaker,
}
