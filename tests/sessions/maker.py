"""Makes the steps of a session by chance, each kind of step with its own weight."""

import random
from typing import Any

from tests.sessions.steps import (
    CHANNELS,
    CONNECTIONS,
    EXCHANGES,
    KEYS,
    PATTERNS,
    QUEUES,
    TYPES,
    Step,
)


class Maker:
    """Makes steps of all kinds: the sessions of the kind `classic`."""

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

    def first(self) -> list[Step]:
        """What comes before all else."""
        return []

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


class TypedQueuesMaker(Maker):
    """Queues whose type, among their arguments, decides what else they may be."""

    def declare_queue(self, name: str | None = None) -> Step:
        """A queue; a quorum queue is durable and of nobody alone."""
        step = super().declare_queue(name)
        if "x-queue-type" in step.arguments["arguments"]:
            step.arguments.update(durable=True, exclusive=False)
        return step
