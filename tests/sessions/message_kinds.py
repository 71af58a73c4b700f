"""Sessions about messages: limits of queues, times, ways, and the types of values in tables."""

import random
from typing import Any, Final

from tests.sessions.by_hand import TYPED
from tests.sessions.maker import Maker, TypedQueuesMaker
from tests.sessions.steps import EXCHANGES, KEYS, QUEUES, Step


class LimitsMaker(TypedQueuesMaker):
    """Full queues of every kind, with confirms and returns."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.declare_queue: 3,
            self.publish: 70,
            self.confirm: 10,
            self.settle: 30,
            self.consume: 12,
            self.qos: 10,
            self.transaction: 3,
            self.close_channel: 4,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        is_quorum = self._seldom(0.3)
        if is_quorum:
            arguments["x-queue-type"] = "quorum"
        elif self._seldom(0.2):
            arguments["x-max-priority"] = self._pick((1, 5))
        if self._seldom(0.7):
            arguments["x-max-length"] = self._pick((0, 1, 2, 3, 5))
        if self._seldom(0.4):
            arguments["x-max-length-bytes"] = self._pick((0, 1, 5, 9, 10, 12))
        if self._seldom(0.85):
            ways = ["drop-head", "reject-publish"] + ["reject-publish-dlx"] * (not is_quorum)
            arguments["x-overflow"] = self._pick(ways)
        if self._seldom(0.6):
            arguments["x-dead-letter-exchange"] = self._pick(("", "", *EXCHANGES))
            arguments["x-dead-letter-routing-key"] = self._pick((*QUEUES, "a"))
        if self._seldom(0.1):
            arguments["x-message-ttl"] = self._pick((0, 100_000))
        return arguments

    def publish(self) -> Step:
        """A message of one of a few sizes, most to a queue by name."""
        step = super().publish()
        size = self._pick((0, 1, 5, 5, 10))
        step.arguments["body"] = f"{self._number:05}".ljust(size, ".")[:size]
        if self._seldom(0.6):
            step.arguments.update(exchange="", routing_key=self._pick(QUEUES))
        return step


class ExpirationsMaker(TypedQueuesMaker):
    """Times to live in every form that a client may write; messages that die of them at once."""

    FORMS: Final = (
        *("", "0", "00", "+0", "-0", "+500000", "-1", "0100000", "1e5", "1_000", " 0", "0 ", "\t0"),
        *("0x10", "1.0", "\u0663", "\uff11", "x", "315360000000", "315360000001", "9" * 30),
        *("0\n", "+", "-", "+-1", "100000", "4294967296", "null", "0" * 200),
    )

    TIMES: Final[tuple[Any, ...]] = (
        *(
            0,
            0,
            100_000,
            1 << 31,
            1 << 32,
            1 << 40,
            315_360_000_000,
            315_360_000_001,
            (1 << 63) - 1,
        ),
        *(-1, -(1 << 40), "0", "100000", True, 1.0, 0.5, None, [], {}),
    )

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.publish: 60, self.declare_queue: 12, self.get: 16, self.confirm: 5}

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self._seldom(0.25):
            arguments["x-queue-type"] = "quorum"
        elif self._seldom(0.2):
            arguments["x-max-priority"] = self._pick((1, 5))
        if self._seldom(0.35):
            arguments["x-message-ttl"] = self._pick((0, 0, 100_000))
        if self._seldom(0.15):
            names = ("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes")
            arguments[self._pick(names)] = self._pick(self.TIMES)
        if self._seldom(0.7):
            arguments["x-dead-letter-exchange"] = self._pick(("", "", *EXCHANGES))
            if self._seldom(0.7):
                arguments["x-dead-letter-routing-key"] = self._pick(QUEUES)
        if self._seldom(0.1):
            arguments["x-max-length"] = self._pick((0, 1))
        return arguments

    def publish(self) -> Step:
        """A message, most with a time to live."""
        step = super().publish()
        if self._seldom(0.6):
            step.arguments["properties"]["expiration"] = self._pick(self.FORMS)
        elif self._seldom(0.5):
            step.arguments["properties"]["expiration"] = "0"
        return step


class RoutingMaker(Maker):
    """Exchanges bound to each other, alternate ones in chains, keys and patterns of every form."""

    WORDS: Final = ("a", "b", "", "*", "#", "a*", "A")

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.declare_queue: 4,
            self.declare_exchange: 16,
            self.delete_exchange: 8,
            self.bind: 40,
            self.unbind: 14,
            self.publish: 60,
            self.get: 24,
            self.consume: 3,
            self.settle: 6,
            self.qos: 1,
            self.confirm: 4,
            self.transaction: 3,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        if self._seldom(0.2):
            return {"x-dead-letter-exchange": self._pick(EXCHANGES), "x-message-ttl": 0}
        return {}

    def _key(self) -> str:
        return ".".join(self._pick(self.WORDS) for _ in range(self._chance.randrange(1, 4)))

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange, most with an alternate one."""
        step = super().declare_exchange(name)
        if self._seldom(0.6):
            step.arguments["arguments"]["alternate-exchange"] = self._pick(
                (*EXCHANGES, *EXCHANGES, "", "none", "amq.fanout", "amq.topic")
            )
        step.arguments["internal"] = self._seldom(0.2)
        step.arguments["auto_delete"] = self._seldom(0.25)
        return step

    def _binding(self, op: str) -> Step:
        step = super()._binding(op)
        if self._seldom(0.4):
            step.arguments["to_exchange"] = True
            ends = [self._pick(EXCHANGES), self._pick((*EXCHANGES, "amq.topic", "amq.fanout"))]
            self._chance.shuffle(ends)  # one of them will be deleted, and with it the binding
            step.arguments["destination"], step.arguments["source"] = ends
        if self._seldom(0.5):
            step.arguments["routing_key"] = self._key()
        return step

    def publish(self) -> Step:
        """A message, often to be returned, often to several keys."""
        step = super().publish()
        step.arguments["mandatory"] = self._seldom(0.6)
        if self._seldom(0.5):
            step.arguments["routing_key"] = self._key()
        if self._seldom(0.4):
            headers = step.arguments["properties"].setdefault("headers", {})
            for name in self._chance.sample(("CC", "BCC"), self._chance.randrange(1, 3)):
                keys: Any = [self._pick((*QUEUES, *KEYS, self._key())) for _ in range(3)]
                keys = keys[: self._chance.randrange(4)]
                if self._seldom(0.05):
                    keys = self._pick(("q0", 5, None, {}, True))
                elif self._seldom(0.05):
                    keys = [*keys, self._pick((5, None, ["q0"], {"a": "q0"}))]
                headers[name] = keys
        return step


class TypedMaker(Maker):
    """Arguments, and headers that exchanges look at, of every type that AMQP knows."""

    NUMBERS: Final = ("b", "B", "s", "u", "I", "i", "l")
    NAMES: Final = ("kind", "n", "x-kind", "deep")

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._few = [self._any_value() for _ in range(4)]
        self._weights |= {
            self.declare_queue: 16,
            self.declare_exchange: 8,
            self.bind: 20,
            self.unbind: 10,
            self.publish: 50,
            self.get: 16,
            self.consume: 12,
            self.transaction: 2,
        }

    def _any_value(self, depth: int = 0) -> list[Any]:
        kind = self._pick("bBsuIilfdDSTtVx" + "AF" * (depth < 2))
        return [kind, self._of_type(kind, depth)]

    def _of_type(self, kind: str, depth: int) -> Any:
        match kind:
            case "b" | "s" | "I" | "l":
                return self._pick((0, 1, 2, 100, -1, -100))
            case "B" | "u" | "i":
                return self._pick((0, 1, 2, 100))
            case "f" | "d":
                return self._pick((0.0, 1.0, 1.5, -2.0, 100.0))
            case "D":
                return self._pick(([0, 1], [1, 10], [2, 150], [0, 0]))
            case "S" | "x":
                return self._pick(("", "1", "a", "x", "q0", "e0", "all"))
            case "T":
                return self._pick((0, 1, 1_700_000_000))
            case "t":
                return self._pick((True, False))
            case "V":
                return None
            case "A":
                return [self._any_value(depth + 1) for _ in range(self._chance.randrange(3))]
            case _:
                names = self._chance.sample(("a", "b", "c"), self._chance.randrange(3))
                return {name: self._any_value(depth + 1) for name in names}

    def _value(self) -> list[Any]:
        return self._pick(self._few) if self._seldom(0.7) else self._any_value()

    def _number_of_any_type(self, number: int) -> list[Any]:
        return [self._pick(self.NUMBERS), number]

    def _arguments_of_queue(self) -> dict[str, Any]:
        typed: dict[str, Any] = {}
        if self._seldom(0.4):
            names = ("x-max-length", "x-max-length-bytes", "x-message-ttl", "x-max-priority")
            typed[self._pick(names)] = self._number_of_any_type(self._pick((1, 5, 100)))
        if self._seldom(0.2):
            typed["x-dead-letter-exchange"] = ["S", self._pick(("", *EXCHANGES))]
        if self._seldom(0.15):
            typed["x-single-active-consumer"] = ["t", True]
        if self._seldom(0.3):
            any_name = (
                *("x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires"),
                *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-overflow"),
                *("x-max-priority", "x-single-active-consumer", "x-queue-mode", "x-other"),
            )
            typed[self._pick(any_name)] = self._any_value()
        return {TYPED: typed}

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange, most that look at headers."""
        step = super().declare_exchange(name)
        if self._seldom(0.6):
            step.arguments["exchange_type"] = "headers"
        typed: dict[str, Any] = {}
        if self._seldom(0.2):
            typed["alternate-exchange"] = ["S", self._pick(EXCHANGES)]
        if self._seldom(0.2):
            typed[self._pick(("alternate-exchange", "x-other"))] = self._any_value()
        step.arguments["arguments"] = {TYPED: typed}
        return step

    def _table(self, most: int) -> dict[str, Any]:
        names = self._chance.sample(self.NAMES, self._chance.randrange(most + 1))
        return {name: self._value() for name in names}

    def _binding(self, op: str) -> Step:
        step = super()._binding(op)
        typed = self._table(3)
        if self._seldom(0.6):
            typed["x-match"] = ["S", self._pick(("all", "any", "all-with-x", "any-with-x"))]
        step.arguments["arguments"] = {TYPED: typed}
        if self._seldom(0.4):
            step.arguments["source"] = self._pick((*EXCHANGES, "amq.headers"))
        return step

    def publish(self) -> Step:
        """A message, most with headers."""
        step = super().publish()
        step.arguments["properties"] = {"headers": {TYPED: self._table(4)}}
        if self._seldom(0.5):
            step.arguments["exchange"] = self._pick(("amq.headers", *EXCHANGES))
        return step

    def consume(self) -> Step:
        """A consumer, some with arguments."""
        step = super().consume()
        typed: dict[str, Any] = {}
        if self._seldom(0.4):
            typed["x-priority"] = self._number_of_any_type(self._pick((0, 1, 5)))
        if self._seldom(0.15):
            names = ("x-priority", "x-other", "x-cancel-on-ha-failover")
            typed[self._pick(names)] = self._any_value()
        step.arguments["arguments"] = {TYPED: typed}
        return step
