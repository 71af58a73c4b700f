"""A session: what two connections do, in an order that a seed decides.

Its kind says what it is about: everything (`classic`), quorum queues, times (`timers`), what one
client's end does to the others (`errors`), `transactions`, what an argument or a header may be
(`values`), direct reply-to (`replies`), messages that die again and again (`cycles`), frames that
follow each other without waiting (`bursts`), `consumers`, what belongs to a connection (`owners`),
what a quorum queue takes back (`returns`), contents in odd frames (`frames`), full queues
(`limits`), forms of times to live (`expirations`), ways through exchanges (`routing`), AMQP's types
of values (`typed`), what the management API does meanwhile (`managed`), odd `methods`, messages
that are `republished`, `users` who may not do everything, or several of these (`mixed`).
"""

import random
from typing import Any, Final, Literal, get_args

from tests.sessions.client_kinds import ConsumersMaker, FramesMaker, OwnersMaker, ReturnsMaker
from tests.sessions.maker import Maker
from tests.sessions.managing import ManagedMaker
from tests.sessions.message_kinds import (
    ExpirationsMaker,
    LimitsMaker,
    RoutingMaker,
    TypedMaker,
)
from tests.sessions.odd_kinds import MethodsMaker, MixedMaker, RepublishedMaker, UsersMaker
from tests.sessions.steps import (
    EXCHANGES,
    KEYS,
    LENGTH,
    LONG_MS,
    QUEUES,
    SHORT_MS,
    STEPS_BETWEEN_WAITS,
    WAIT_S,
    WAITING,
    Step,
)

Kind = Literal[
    "classic",
    "quorum",
    "timers",
    "errors",
    "transactions",
    "values",
    "replies",
    "cycles",
    "bursts",
    "consumers",
    "owners",
    "returns",
    "frames",
    "limits",
    "expirations",
    "routing",
    "typed",
    "managed",
    "methods",
    "republished",
    "users",
    "mixed",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


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
    steps = make.first()
    steps += [make.declare_queue(name) for name in QUEUES]
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


class _QuorumMaker(Maker):
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


class _TimersMaker(Maker):
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


class _ErrorsMaker(Maker):
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


class _TransactionsMaker(Maker):
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


class _ValuesMaker(Maker):
    """Arguments and headers have values of every type; headers exchanges look at them."""

    VALUES: Final[tuple[Any, ...]] = (
        *(0, 1, 2, 127, 300, 40_000, 70_000, 3_000_000_000, 1 << 40, -1, -200, -70_000),
        *(1.0, 1.5, -0.25, True, False, None, "", "1", "x", "2.0", [], [1, "x"], {}, {"a": 1}),
        *({"a": [{"b": None}]}, [[1], [2]]),
    )
    """JSON knows them all, so that a session can be recorded."""

    NAMES: Final = ("kind", "n", "x-kind", "deep", "x-match")

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._few = chance.sample(self.VALUES, 4)  # so that some are equal
        self._weights |= {
            self.bind: 20,
            self.publish: 50,
            self.declare_queue: 12,
            self.declare_exchange: 8,
            self.unbind: 8,
            self.get: 16,
            self.transaction: 2,
        }

    def _value(self) -> Any:
        return self._pick(self._few if self._seldom(0.7) else self.VALUES)

    def _table(self, most: int) -> dict[str, Any]:
        names = self._chance.sample(self.NAMES[:4], self._chance.randrange(most + 1))
        return {name: self._value() for name in names}

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments = super()._arguments_of_queue() if self._seldom(0.4) else {}
        if self._seldom(0.35):
            name = self._pick(
                (
                    *("x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires"),
                    *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-overflow"),
                    *("x-max-priority", "x-single-active-consumer", "x-queue-mode"),
                    *("x-queue-type", "x-delivery-limit", "x-queue-version", "x-other"),
                )
            )
            arguments[name] = self._pick(self.VALUES)
        return arguments

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue; RabbitMQ fails to name one of an unknown type."""
        step = super().declare_queue(name)
        if not step.arguments["queue"]:
            step.arguments["arguments"].pop("x-queue-type", None)
        return step

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange, most that look at headers."""
        step = super().declare_exchange(name)
        if self._seldom(0.5):
            step.arguments["exchange_type"] = "headers"
        if self._seldom(0.05):
            step.arguments["exchange_type"] = self._pick(("", "x-other", "HEADERS"))
        if self._seldom(0.15):
            name = self._pick(("alternate-exchange", "x-other"))
            step.arguments["arguments"][name] = self._value()
        return step

    def _binding(self, op: str) -> Step:
        step = super()._binding(op)
        arguments = self._table(3)
        if self._seldom(0.6):
            arguments["x-match"] = self._pick(("all", "any", "all-with-x", "any-with-x"))
        if self._seldom(0.05):
            arguments["x-match"] = self._pick((*self.VALUES, "some"))
        step.arguments["arguments"] = arguments
        return step

    def publish(self) -> Step:
        """A message, most with headers."""
        step = super().publish()
        if self._seldom(0.8):
            headers = step.arguments["properties"].setdefault("headers", {})
            headers |= self._table(4)
            if self._seldom(0.04):
                headers[self._pick(("CC", "BCC", "x-match", "x-death"))] = self._value()
        if self._seldom(0.4):
            step.arguments["exchange"] = self._pick(("amq.headers", *EXCHANGES))
        return step

    def consume(self) -> Step:
        """A consumer, some with arguments that mean nothing, or cannot be."""
        step = super().consume()
        if self._seldom(0.2):
            names = ("x-priority", "x-priority", "x-other", "x-stream-offset")
            step.arguments["arguments"] = {self._pick(names): self._value()}
        return step


class _RepliesMaker(Maker):
    """Clients ask each other, and answer by direct reply-to."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.consume: 16, self.reply: 24, self.close_channel: 4, self.get: 14}

    def consume(self) -> Step:
        """A consumer, often of replies."""
        step = super().consume()
        if self._seldom(0.5):
            step.arguments["queue"] = "amq.rabbitmq.reply-to"
            step.arguments["no_ack"] = not self._seldom(0.05)
        return step

    def publish(self) -> Step:
        """A message, often one that asks for an answer."""
        step = super().publish()
        if self._seldom(0.6):
            step.arguments["properties"]["reply_to"] = self._pick(
                (*["amq.rabbitmq.reply-to"] * 4, "amq.rabbitmq.reply-to.none", "q0")
            )
        return step

    def reply(self) -> Step:
        """An answer to one of the addresses that were seen, or to none."""
        properties: dict[str, Any] = {}
        if self._seldom(0.2):
            properties["reply_to"] = "amq.rabbitmq.reply-to"
        self._number += 1
        return self._step(
            "reply",
            which=self._chance.randrange(8),
            mandatory=self._seldom(0.4),
            properties=properties,
            body=f"{self._number:05}",
        )


class _CyclesMaker(Maker):
    """Messages die for every reason, come back, and are returned, refused and held."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.settle: 34, self.publish: 40, self.confirm: 6, self.transaction: 3}

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        is_quorum = self._seldom(0.35)
        if is_quorum:
            arguments["x-queue-type"] = "quorum"
            if self._seldom(0.6):
                arguments["x-delivery-limit"] = self._pick((0, 1, 2))
        elif self._seldom(0.2):
            arguments["x-max-priority"] = self._pick((1, 5))
        if self._seldom(0.85):
            arguments["x-dead-letter-exchange"] = self._pick(("", "", *EXCHANGES, "amq.topic"))
            if self._seldom(0.7):
                arguments["x-dead-letter-routing-key"] = self._pick((*QUEUES, "a"))
        if self._seldom(0.4):
            arguments["x-max-length"] = self._pick((0, 1, 2))
        if self._seldom(0.3):
            arguments["x-max-length-bytes"] = self._pick((0, 4, 5, 10, 16))
        if self._seldom(0.6):
            ways = ["drop-head", "reject-publish"] + ["reject-publish-dlx"] * (not is_quorum)
            arguments["x-overflow"] = self._pick(ways)
        if self._seldom(0.15):
            arguments["x-message-ttl"] = self._pick((0, 100_000))
        if self._seldom(0.1):
            arguments["x-expires"] = 100_000
        return arguments

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue, whose type decides what else it may be."""
        step = super().declare_queue(name)
        if step.arguments["arguments"].get("x-queue-type") == "quorum":
            step.arguments.update(durable=True, exclusive=False)
        return step

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange, most with an alternate one."""
        step = super().declare_exchange(name)
        if self._seldom(0.5):
            step.arguments["arguments"]["alternate-exchange"] = self._pick((*EXCHANGES, "none"))
        return step

    def publish(self) -> Step:
        """A message, often to several keys, or to be returned."""
        step = super().publish()
        properties = step.arguments["properties"]
        if self._seldom(0.2):
            name = self._pick(("CC", "BCC"))
            keys = [self._pick((*QUEUES, *KEYS)) for _ in range(self._chance.randrange(3))]
            properties["headers"] = properties.get("headers", {}) | {name: keys}
        if self._seldom(0.1):
            properties["expiration"] = "0"
        if self._seldom(0.3):
            step.arguments["mandatory"] = True
        return step


class _BurstsMaker(Maker):
    """Clients send several frames at once, whatever is answered to the first."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._parts = {
            make: weight
            for make, weight in self._weights.items()
            if make not in {self.transaction, self.close_channel, self.close_connection}
        }
        self._weights |= {self.burst: 60}

    def burst(self) -> Step:
        """A few steps of one channel at once."""
        step = self._step("burst")
        makes = self._chance.choices(
            list(self._parts), list(self._parts.values()), k=self._chance.randrange(2, 6)
        )
        parts = [make() for make in makes]
        step.arguments["steps"] = [(part.op, part.arguments) for part in parts]
        return step


_MAKERS: Final[dict[Kind, type[Maker]]] = {
    "classic": Maker,
    "quorum": _QuorumMaker,
    "timers": _TimersMaker,
    "errors": _ErrorsMaker,
    "transactions": _TransactionsMaker,
    "values": _ValuesMaker,
    "replies": _RepliesMaker,
    "cycles": _CyclesMaker,
    "bursts": _BurstsMaker,
    "consumers": ConsumersMaker,
    "owners": OwnersMaker,
    "returns": ReturnsMaker,
    "frames": FramesMaker,
    "limits": LimitsMaker,
    "expirations": ExpirationsMaker,
    "routing": RoutingMaker,
    "typed": TypedMaker,
    "managed": ManagedMaker,
    "methods": MethodsMaker,
    "republished": RepublishedMaker,
    "users": UsersMaker,
    "mixed": MixedMaker,
}
WITH_API: Final[frozenset[Kind]] = frozenset({"managed", "users"})
"""What asks the management API."""
