"""The methods of a channel that take messages: qos, consume, cancel and get; and what is delivered.

Delivery tags count all deliveries of the channel from 1. The broker numbers its own. A direct reply
(`reply_to.py`) has the number of the delivery that comes next, as in RabbitMQ: nobody settles it.
"""

import base64
import os
from collections.abc import Callable
from typing import Any, Final

from streaming.amqp import methods as m
from streaming.amqp.errors import NOT_ALLOWED, NOT_IMPLEMENTED, PRECONDITION_FAILED, error
from streaming.amqp.outgoing import Outgoing
from streaming.amqp.reply_to import REPLY_TO_QUEUE, ReplyConsumers
from streaming.amqp.requests import Requests, nothing
from streaming.amqp.stored import Stored
from streaming.amqp.vhosts import Traffic
from streaming.broker import commands
from streaming.broker.outbound import DeliveryOut
from topology.values import Table

MAX_REPLY_BYTES: Final = 64 << 20
"""When so much waits to be sent to a client, direct replies to it are dropped."""

_POLL_BYTES: Final = 29
"""The frames of a get and of its empty answer, without the name of the queue."""

_GENERATED_TAG: Final = "amq.ctag-"


class Consuming:
    """Takes messages for one channel."""

    def __init__(
        self,
        channel_name: str,
        requests: Requests,
        outgoing: Outgoing,
        replies: ReplyConsumers,
        queue_named: Callable[[str], str],
    ) -> None:
        self._channel = channel_name
        self._requests = requests
        self._outgoing = outgoing
        self._replies = replies
        self._queue_named = queue_named
        self._consumers: dict[str, Table] = {}  # tag -> arguments
        self._without_ack: set[str] = set()
        self._traffic = requests.vhost.traffic.setdefault(channel_name, Traffic())
        self._got: tuple[DeliveryOut, Stored] | None = None
        self._early: dict[str, list[tuple[DeliveryOut, Stored]]] = {}  # of starting consumers
        self._held: list[tuple[DeliveryOut, Stored]] | None = None
        self._newest_tag = 0

    # -- methods

    def qos(self, method: m.BasicQos) -> None:
        """Limit what is unacknowledged: of consumers that start later, or of the whole channel."""
        if method.prefetch_size:
            raise error(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        command = commands.Qos(
            prefetch=method.prefetch_count, is_global=method.is_global, channel=self._channel
        )
        self._outgoing.method(m.BasicQosOk())  # before what a higher limit lets through
        self._requests.ask(method.ids, command, nothing)

    def consume(self, method: m.BasicConsume) -> None:
        """Start a consumer; the server names one without a tag."""
        name = self._queue_named(method.queue)
        tag = method.consumer_tag or _GENERATED_TAG + random_name()
        if tag in self._consumers:
            raise error(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        if name == REPLY_TO_QUEUE:
            self._consume_replies(tag, method)
            return
        command = commands.Consume(
            queue=name,
            label=tag,
            auto_ack=method.no_ack,
            exclusive=method.exclusive,
            channel=self._channel,
            arguments=method.arguments,
        )

        def started(_result: dict[str, Any]) -> None:
            self._consumers[tag] = method.arguments
            if not method.nowait:
                self._outgoing.method(m.BasicConsumeOk(tag))
            for out, stored in self._early.pop(tag):
                self.heard(out, stored)

        if method.no_ack:
            self._without_ack.add(tag)
        else:
            self._without_ack.discard(tag)
        self._early[tag] = []
        self._requests.ask(method.ids, command, started)

    def _consume_replies(self, tag: str, method: m.BasicConsume) -> None:
        if not method.no_ack:
            raise error(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if self._replies.address_of(self._channel) is not None:
            raise error(PRECONDITION_FAILED, "reply consumer already set")
        self._replies.add(self._channel, self, tag)
        if not method.nowait:
            self._outgoing.method(m.BasicConsumeOk(tag))

    def cancel(self, method: m.BasicCancel) -> None:
        """End a consumer; one that is not there is as good as ended."""
        tag = method.consumer_tag

        def answer() -> None:
            if not method.nowait:
                self._outgoing.method(m.BasicCancelOk(tag))

        def ended(_result: dict[str, Any]) -> None:
            self.ended(tag)
            answer()

        # of replies first: a consumer of a queue may have its tag, too
        if self._replies.cancel(self._channel, tag) or tag not in self._consumers:
            answer()
        else:
            command = commands.Cancel(label=tag, channel=self._channel)
            self._requests.ask(method.ids, command, ended)

    def get(self, method: m.BasicGet) -> None:
        """Get one message."""
        name = self._queue_named(method.queue)
        command = commands.Get(queue=name, auto_ack=method.no_ack, channel=self._channel)

        def answered(_result: dict[str, Any]) -> None:
            found, self._got = self._got, None
            if found is None:
                self._requests.vhost.count_get("get_empty", name, self._channel)
                self._requests.vhost.polled_bytes += _POLL_BYTES + len(method.queue.encode())
                self._outgoing.method(m.BasicGetEmpty())
                return
            what = "get_no_ack" if method.no_ack else "get"
            self._requests.vhost.count_get(what, name, self._channel)
            out, stored = found
            ready = self._requests.vhost.ready_in(name)
            self._newest_tag = out.tag
            self._outgoing.got(out, stored, ready)

        self._requests.ask(method.ids, command, answered)

    # -- what comes

    def hold(self) -> None:
        """Keep what consumers get from now on, until `let_go`."""
        self._held = []

    def let_go(self) -> None:
        """Pass on what was kept."""
        held, self._held = self._held or (), None
        for out, stored in held:
            self.heard(out, stored)

    def heard(self, out: DeliveryOut, stored: Stored) -> None:
        """Pass a delivery on; keep it while its get or its consumer has no answer yet."""
        if not out.consumer_number:
            self._got = out, stored
            if out.requeue_count:
                self._traffic.redeliver += 1
        elif self._held is not None:
            self._held.append((out, stored))
        elif self._early and out.label in self._early:
            self._early[out.label].append((out, stored))
        else:
            if out.label in self._without_ack:
                self._traffic.deliver_no_ack += 1
            else:
                self._traffic.deliver += 1
            if out.requeue_count:
                self._traffic.redeliver += 1
            self._newest_tag = out.tag
            self._outgoing.deliver(out, stored)

    def reply(self, consumer_tag: str, address: str, properties: bytes, body: bytes) -> bool:
        """See `Receiver`."""
        if self._outgoing.waiting_bytes > MAX_REPLY_BYTES:
            return False
        tag = self._newest_tag + 1
        self._outgoing.deliver_reply(consumer_tag, tag, address, properties, body)
        return True

    def arguments_of(self, consumer_tag: str) -> Table | None:
        """The arguments of a consumer; None if there is none of that tag."""
        return self._consumers.get(consumer_tag)

    def ended(self, consumer_tag: str) -> None:
        """Note that the broker ended a consumer."""
        self._consumers.pop(consumer_tag, None)
        self._outgoing.forget_consumer(consumer_tag)


def random_name() -> str:
    """A name that nobody can guess, as RabbitMQ generates them."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=")


HANDLERS: Final[dict[type[m.Method], Callable[[Consuming, Any], None]]] = {
    m.BasicQos: Consuming.qos,
    m.BasicConsume: Consuming.consume,
    m.BasicCancel: Consuming.cancel,
    m.BasicGet: Consuming.get,
}
"""The method of each."""
