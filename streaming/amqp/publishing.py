"""The publishes of a channel, as complete messages: checked, and passed on.

To the broker they go now, or when their transaction is committed; to a consumer of direct replies
always now.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from streaming.amqp import methods as m
from streaming.amqp.content import Content, PublishMethod
from streaming.amqp.errors import (
    NO_ROUTE,
    PRECONDITION_FAILED,
    AmqpError,
    error,
)
from streaming.amqp.outgoing import Outgoing, Peer
from streaming.amqp.properties import PLAIN, Seen, see, with_reply_to
from streaming.amqp.publications import stored_seen
from streaming.amqp.reply_to import REPLY_TO_QUEUE, ReplyConsumers
from streaming.amqp.requests import Requests
from streaming.amqp.stored import Stored
from streaming.amqp.transactions import Transaction
from streaming.broker.message import CONFIRM, MANDATORY, Publication, Routed
from topology.refusals import Refusal
from topology.values import Table

PUBLISH_METHOD: Final = (60, 40)
_NUMBER_BYTES: Final = 12
_QUEUE_BYTES: Final = 255 + _NUMBER_BYTES
"""The most that the name and the number of a queue take in a record of a log."""


class _NoReplyConsumerError(AmqpError):
    """A message asks for answers on a channel where no consumer would get them.

    Args:
        route: raises AmqpError if its exchange does not take the message: that comes first.
    """

    def __init__(self, route: Callable[[], object]) -> None:
        refusal = error(PRECONDITION_FAILED, "fast reply consumer does not exist")
        super().__init__(refusal.code, refusal.text)
        self._route = route

    def settled(self) -> AmqpError:
        """See `AmqpError`."""
        try:
            self._route()
        except AmqpError as other:
            return other
        return self


class Publishing:
    """Publishes for one channel.

    Args:
        fail: closes the channel because of what no frame asks for now.
    """

    def __init__(
        self,
        channel_name: str,
        channel_number: int,
        peer: Peer,
        requests: Requests,
        outgoing: Outgoing,
        replies: ReplyConsumers,
        fail: Callable[[AmqpError, tuple[int, int]], None],
    ) -> None:
        self._channel = channel_name
        self._number = channel_number
        self._peer = peer
        self._vhost = requests.vhost
        self._requests = requests
        self._outgoing = outgoing
        self._replies = replies
        self._fail = fail

    def refuse_large(self, body_bytes: int, property_bytes: int) -> None:
        """Refuse a message that is larger than the vhost takes."""
        vhost = self._vhost
        most = vhost.max_body_bytes
        if body_bytes > most:
            text = f"message size {body_bytes} is larger than configured max size {most}"
            raise error(PRECONDITION_FAILED, text)
        if property_bytes > vhost.max_property_bytes:
            text = (
                f"properties of {property_bytes} bytes are larger than configured max size "
                f"{vhost.max_property_bytes}"
            )
            raise error(PRECONDITION_FAILED, text)

    def publish(
        self,
        method: PublishMethod,
        properties: bytes,
        body: bytes,
        transaction: Transaction | None,
    ) -> None:
        """Take a complete message; with a transaction, until that is committed.

        Raises:
            AmqpError: it is refused.
        """
        if method.refusal is not None:
            raise method.refusal()
        number = self._outgoing.confirms.next_number()
        if transaction is None:
            self._publish_now(method, properties, body, number)
            return
        content = Content(method, properties, body)
        keep = partial(self._route_and_keep, transaction, content)
        self._requests.then(partial(self._guarded, keep, PUBLISH_METHOD))

    def _route_and_keep(self, transaction: Transaction, content: Content) -> None:
        """Check and route a publish, and keep it until its transaction is committed.

        A direct reply goes out at once, whatever becomes of the transaction.

        Raises:
            AmqpError: it is refused.
        """
        method, properties, body = content
        seen = see(properties)
        properties = self._with_reply_address(method, properties, seen)
        routed = self._route(self._publication(method, seen), seen.headers)
        self._refuse_many(routed)
        if _is_reply(method):
            self._replies.deliver(method.routing_key, properties, body)
            if method.mandatory:
                size = len(properties) + len(body)
                transaction.then(partial(self._return_reply, method, properties, body), size)
            return
        publication = self._publication(method, seen, routed)
        flags = MANDATORY if method.mandatory else 0
        transaction.publish(publication, stored_seen(properties, body, seen), flags)

    def _route(self, publication: Publication, headers: Table | None) -> Routed | None:
        """Where a publish goes; None: to no queue.

        Raises:
            AmqpError: it is refused.
        """
        routed = self._vhost.route(self._requests.actor, publication, headers)
        if isinstance(routed, Refusal):
            raise AmqpError(routed.code, routed.text)
        return routed

    def _guarded(self, step: Callable[[], None], method: tuple[int, int]) -> None:
        """Do something that no frame asks for now."""
        try:
            step()
        except AmqpError as failure:
            self._fail(failure, method)

    def _named_user(self, user_id: str | None) -> str | None:
        """The property `user_id` if the broker has to check it."""
        is_own = user_id == self._peer.user or self._peer.impersonates
        return None if is_own else user_id

    def _publish_now(
        self, method: PublishMethod, properties: bytes, body: bytes, number: int
    ) -> None:
        flags = (MANDATORY if method.mandatory else 0) | (CONFIRM if number else 0)
        seen = see(properties)
        if seen is PLAIN and method.publication is not None:  # nearly every message
            stored = Stored(properties, body)
            self._requests.publish(method.publication, stored, flags, number)
            return
        properties = self._with_reply_address(method, properties, seen)
        if _is_reply(method):
            reply = partial(self._reply, Content(method, properties, body), seen, number)
            self._requests.then(partial(self._guarded, reply, PUBLISH_METHOD))
            return
        publication = self._publication(method, seen)
        if seen is PLAIN:
            method.publication = publication
        stored = stored_seen(properties, body, seen)
        self._requests.publish(publication, stored, flags, number)

    def _publication(
        self, method: PublishMethod, seen: Seen, routed: Routed | None = None
    ) -> Publication:
        user_id = self._named_user(seen.user_id)
        return self._vhost.publications.of(
            method.exchange, method.routing_key, seen, user_id, routed
        )

    def _with_reply_address(self, method: PublishMethod, properties: bytes, seen: Seen) -> bytes:
        """The properties of a message, with the address of this channel's consumer of replies.

        Raises:
            AmqpError: the message asks for it, and there is no such consumer.
        """
        if seen.reply_to != REPLY_TO_QUEUE:
            return properties
        address = self._replies.address_of(self._channel)
        if address is None:
            publication = Publication(method.exchange, method.routing_key)
            raise _NoReplyConsumerError(partial(self._route, publication, None))
        return with_reply_to(properties, address)

    def _reply(self, content: Content, seen: Seen, number: int) -> None:
        """Hand a direct reply to its consumer; one that is mandatory is returned in any case.

        Raises:
            AmqpError: it is refused, as by permissions for the default exchange.
        """
        method, properties, body = content
        self._route(self._publication(method, seen), seen.headers)
        if method.mandatory:
            self._return_reply(method, properties, body)
        self._replies.deliver(method.routing_key, properties, body)
        if number:
            self._outgoing.confirms.accept(number)
            self._peer.output.has_confirms(self._number)

    def _return_reply(self, method: PublishMethod, properties: bytes, body: bytes) -> None:
        """Return a direct reply, which no queue has got, as RabbitMQ 4.0.5 does."""
        returned = m.BasicReturn(NO_ROUTE, "NO_ROUTE", method.exchange, method.routing_key)
        self._outgoing.content(returned, properties, body)

    def _refuse_many(self, routed: Routed | None) -> None:
        """Refuse a publish in a transaction whose queues the log has no room to name."""
        most = self._vhost.max_routed_bytes
        if routed is not None and len(routed) * _QUEUE_BYTES > most:
            size = sum(len(name.encode()) + _NUMBER_BYTES for name, _number in routed)
            if size > most:
                text = f"the names of its {len(routed)} queues take more than {most} bytes"
                raise error(PRECONDITION_FAILED, text)


def _is_reply(method: PublishMethod) -> bool:
    """Whether a message goes to a consumer of direct replies."""
    return not method.exchange and method.routing_key.startswith(REPLY_TO_QUEUE)
