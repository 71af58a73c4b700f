"""Sessions about what clients do seldom: odd methods, republishing, users; and all of it mixed."""

import random
from typing import Any, Final

from tests.sessions.client_kinds import ConsumersMaker
from tests.sessions.maker import Maker, TypedQueuesMaker
from tests.sessions.message_kinds import LimitsMaker, RoutingMaker
from tests.sessions.steps import CONNECTIONS, EXCHANGES, KEYS, PATTERNS, QUEUES, Step

NAMES: Final = (
    *QUEUES,
    *EXCHANGES,
    "",
    "amq.mine",
    "amq.topic",
    "missing",
    "x" * 127,
)

LIMITED: Final = "session-user"
"""A user whose permissions sessions change."""


class MethodsMaker(Maker):
    """Methods without an answer, with names of every form, and those that few clients send."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.method: 60, self.consume: 16, self.settle: 16}

    def method(self) -> Step:
        """A method with fields by chance."""
        name, fields = self._pick(
            (
                ("Queue.Declare", ("queue", "passive", "durable", "exclusive", "auto_delete")),
                ("Queue.Delete", ("queue", "if_unused", "if_empty")),
                ("Queue.Purge", ("queue",)),
                ("Queue.Bind", ("queue", "exchange", "routing_key")),
                ("Exchange.Declare", ("exchange", "exchange_type", "passive", "durable")),
                ("Exchange.Delete", ("exchange", "if_unused")),
                ("Exchange.Bind", ("destination", "source", "routing_key")),
                ("Exchange.Unbind", ("destination", "source", "routing_key")),
                ("Basic.Cancel", ("consumer_tag",)),
                ("Confirm.Select", ()),
            )
        )
        values = {field: self._field(field) for field in fields}
        if name == "Queue.Declare":  # what is declared is cleaned up by these names
            values["queue"] = self._pick(QUEUES)
        if name == "Exchange.Declare":
            values["exchange"] = self._pick((*EXCHANGES, "amq.mine", ""))
        nowait = self._seldom(0.5)
        if self._seldom(0.1):
            name, values, nowait = self._pick(
                (
                    ("Connection.UpdateSecret", {"new_secret": "guest", "reason": "new"}, None),
                    ("Channel.Flow", {"active": True}, None),
                    ("Basic.Recover", {"requeue": True}, None),
                    ("Basic.QosOk", {}, None),
                    ("Queue.Unbind", {"queue": "q0", "exchange": "e0", "routing_key": "a"}, None),
                )
            )
        if nowait is not None:
            values["nowait"] = nowait
        return self._step("method", name=name, fields=values)

    def _field(self, field: str) -> Any:
        match field:
            case "queue" | "exchange" | "destination" | "source":
                return self._pick(NAMES if self._seldom(0.3) else (*QUEUES, *EXCHANGES))
            case "routing_key":
                return self._pick(PATTERNS)
            case "exchange_type":
                return self._pick(("direct", "fanout", "topic", "headers", "x-other", ""))
            case "consumer_tag":
                return self._pick(("t0", "t1", "t2", ""))
        return self._seldom(0.3)

    def consume(self) -> Step:
        """A consumer, often without an answer."""
        step = super().consume()
        step.arguments["consumer_tag"] = self._pick(("t0", "t1", "t2"))
        step.arguments["nowait"] = self._seldom(0.5)
        return step


class RepublishedMaker(TypedQueuesMaker):
    """Clients publish what they got again, with all its headers."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {self.republish: 40, self.settle: 30, self.get: 24, self.publish: 24}

    def _arguments_of_queue(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "x-dead-letter-exchange": self._pick(("", "", *EXCHANGES)),
            "x-dead-letter-routing-key": self._pick(QUEUES),
        }
        if self._seldom(0.3):
            arguments["x-queue-type"] = "quorum"
            if self._seldom(0.5):
                arguments["x-delivery-limit"] = self._pick((0, 1, 2))
        if self._seldom(0.3):
            arguments["x-max-length"] = self._pick((0, 1, 2))
        if self._seldom(0.15):
            arguments["x-message-ttl"] = 0
        return arguments

    def settle(self) -> Step:
        """A settlement, often a rejection."""
        step = super().settle()
        if self._seldom(0.6):
            step.arguments.update(kind="reject", requeue=self._seldom(0.3), multiple=False)
        return step

    def republish(self) -> Step:
        """The message that its channel got last, published again."""
        exchange = self._pick(("", "", *EXCHANGES, "amq.topic"))
        return self._step(
            "republish",
            exchange=exchange,
            routing_key=self._pick(QUEUES if exchange == "" else (*KEYS, *QUEUES)),
            mandatory=self._seldom(0.3),
        )


class UsersMaker(Maker):
    """The clients of one connection may do some things, those of the other everything."""

    RULES: Final = ("", ".*", "^q", "^(q0|e0|amq\\.default)$", "[12]|amq\\.gen.*", "^e", "^amq\\.")

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.permit: 12,
            self.declare_queue: 16,
            self.declare_exchange: 14,
            self.bind: 16,
            self.unbind: 8,
            self.consume: 12,
            self.purge: 6,
            self.delete_queue: 6,
            self.delete_exchange: 4,
            self.error: 0,
        }

    def first(self) -> list[Step]:
        """There is a second user."""
        return [self.permit()]

    def permit(self) -> Step:
        """The second connection ends; its user may do other things when it begins again."""
        topics = None
        if self._seldom(0.5):
            topics = {
                "exchange": self._pick((*EXCHANGES, "amq.topic")),
                "write": self._pick(("^a", "b$", ".*", "^$", "{username}")),
                "read": self._pick(("^a", "b$", ".*", "#")),
            }
        return Step(
            CONNECTIONS[1],
            1,
            "permit",
            {
                "user": LIMITED,
                "rules": {name: self._pick(self.RULES) for name in ("configure", "write", "read")},
                "topics": topics,
            },
        )


class MixedMaker(Maker):
    """Steps of several kinds in one session."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        kinds = (ConsumersMaker, LimitsMaker, RoutingMaker, RepublishedMaker, Maker)
        self._makers: list[Maker] = [kind(chance, without) for kind in kinds]
        for maker in self._makers:
            maker._fed = self._fed  # noqa: SLF001 - the same queue for all consumers of a channel

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue of any kind."""
        return self._chance.choice(self._makers).declare_queue(name)

    def declare_exchange(self, name: str | None = None) -> Step:
        """An exchange of any kind."""
        return self._chance.choice(self._makers).declare_exchange(name)

    def step(self) -> Step:
        """A step of any kind."""
        return self._chance.choice(self._makers).step()
