"""One channel of a connection, as a state machine without a socket.

    methods, content --> Channel --> requests to the vhost
                            |  ^
                  frames <--+  +--- what the broker says (`hear`)

    declaring.py    exchanges, queues and bindings
    publishing.py   publishes, of complete messages
    consuming.py    qos, consumers, gets and deliveries
    this file       settlements, transactions, and the channel itself

The broker may answer later (`entries.py`). So publishes, settlements, and what only asks it for
something, are passed on at once; everything else waits until all before it is answered. While a
frame waits, the channel is parked: those behind it wait too.

A channel that broke a rule is closing: it has told its client, and ignores everything until the
client agrees.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Final

from streaming.amqp import consuming, declaring
from streaming.amqp import methods as m
from streaming.amqp.consuming import Consuming
from streaming.amqp.content import ContentAssembler, PublishMethod
from streaming.amqp.declaring import Declaring
from streaming.amqp.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    AmqpError,
    error,
    reply_text,
)
from streaming.amqp.frames import HEADER_FIELDS, Frame
from streaming.amqp.outgoing import Outgoing, Peer
from streaming.amqp.publishing import PUBLISH_METHOD, Publishing
from streaming.amqp.reply_to import REPLY_TO_QUEUE, ReplyConsumers
from streaming.amqp.requests import Answered, Requests, nothing
from streaming.amqp.stored import Stored
from streaming.amqp.transactions import Transaction
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.commands import SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.outbound import (
    AnswerOut,
    CancelOut,
    ConfirmOut,
    Outbound,
    PublishErrorOut,
    ReturnOut,
)
from topology.values import Table

_SETTLEMENTS: Final = (m.BasicAck, m.BasicReject, m.BasicNack)
_ASK_ONLY: Final = (
    m.ExchangeDeclare,
    m.ExchangeDelete,
    m.ExchangeBind,
    m.ExchangeUnbind,
)
_ASK_OF_A_QUEUE: Final = (
    m.QueueDeclare,
    m.QueueBind,
    m.QueueUnbind,
    m.QueuePurge,
    m.QueueDelete,
    m.BasicGet,
)


class Channel:
    """A channel of one connection.

    Args:
        name: how the broker knows it, unique in the vhost; as RabbitMQ writes it.
        connection: the name of its connection.

    Attributes:
        flows: whether it takes frames; else it is closing or parked.
        settles_now: whether a settlement goes to the broker before all before it is answered: not
            in a transaction.
        closing: it was closed by the server, and the client has not agreed yet.
        parked: the frames that wait, while it is parked.
    """

    def __init__(
        self,
        number: int,
        name: str,
        connection: str,
        peer: Peer,
        vhost: OpenVhost,
        replies: ReplyConsumers,
    ) -> None:
        self.number = number
        self.name = name
        self.flows = True
        self.settles_now = True
        self.closing = False
        self.parked: list[Frame] | None = None
        self._parked_failure: tuple[AmqpError, tuple[int, int]] | None = None
        self._is_gone = False
        self._peer = peer
        self._vhost = vhost
        self._replies = replies
        self._content = ContentAssembler()
        self._unfinished_bytes = 0
        self._outgoing = Outgoing(number, peer, vhost.config.compat)
        self._requests = Requests(
            vhost, Actor(peer.user, name), self._outgoing.confirms, self._refused
        )
        self._declaring = Declaring(name, self._requests, self._outgoing, replies)
        self._consuming = Consuming(
            name, self._requests, self._outgoing, replies, self._declaring.queue_named
        )
        self.delivered = self._consuming.heard  # see `Listener`
        self._publishing = Publishing(
            *(name, number, peer, self._requests, self._outgoing, replies, self.fail)
        )
        self._transaction: Transaction | None = None
        self._cancelled: deque[str] = deque()
        vhost.listen(name, self, self._timed_out)
        opening = commands.OpenChannel(channel=name, connection=connection)
        self._requests.ask(m.ChannelOpen.ids, opening, self._answer(m.ChannelOpenOk()))

    @property
    def confirms(self) -> bool:
        """Whether it confirms publishes."""
        return self._outgoing.confirms.selected

    @property
    def unconfirmed(self) -> int:
        """How many publishes wait for their confirm."""
        return self._outgoing.confirms.missing

    @property
    def transaction(self) -> Transaction | None:
        """What waits for a commit; None if it has no transactions."""
        return self._transaction

    def consumer_arguments(self, consumer_tag: str) -> Table | None:
        """The arguments of a consumer; None if there is none of that tag."""
        return self._consuming.arguments_of(consumer_tag)

    # -- order

    def must_wait(self, method: m.Method) -> bool:
        """Whether a method must wait until all before it is answered.

        Raises:
            AmqpError: 505, the content of a message was to come.
        """
        self._expect_method()
        is_early = self.settles_now if isinstance(method, _SETTLEMENTS) else _only_asks(method)
        return not is_early and not self._requests.is_settled()

    @property
    def expects_content(self) -> bool:
        """Whether the content of a publish was to come."""
        return self._content.method is not None

    def is_settled(self) -> bool:
        """Whether all that the client sent is answered."""
        return self.parked is None and self._requests.is_settled()

    def park(self, frames: list[Frame]) -> None:
        """Let frames wait until all before them is answered."""
        self.parked = frames
        self.flows = False
        self._requests.barrier(self._resume)

    def _resume(self) -> None:
        """Go on with what has waited."""
        frames, self.parked = self.parked or [], None
        failure, self._parked_failure = self._parked_failure, None
        self.flows = not self.closing
        if self._is_gone:
            self._peer.channel_closed(self.number)
        if failure is not None:
            if failure[0].ends_connection and not self._requests.is_over:
                frames = []
            self.fail(*failure)
        self._peer.resume(self.number, frames)

    # -- frames from the client

    def method(self, method: m.Method) -> None:
        """Take a method, other than publish and ack, that need not wait.

        Raises:
            AmqpError: it is refused; of the channel or of the connection.
        """
        kind = type(method)
        declare = declaring.HANDLERS.get(kind)
        consume = consuming.HANDLERS.get(kind)
        handle = self.HANDLERS.get(kind)
        if declare is not None:
            declare(self._declaring, method)
        elif consume is not None:
            consume(self._consuming, method)
        elif handle is not None:
            handle(self, method)
        else:
            raise error(COMMAND_INVALID, "unimplemented method")

    def publish(self, method: PublishMethod, properties: bytes, body: bytes) -> None:
        """Take a publish with its content."""
        if self._content.method is not None:
            raise self._content.expectation
        self._publishing.refuse_large(len(body), len(properties))
        self._publishing.publish(method, properties, body, self._transaction)

    def publish_method(self, method: PublishMethod) -> None:
        """Take a publish; its content follows."""
        self._expect_method()
        self._content.begin(method)

    def content_header(self, payload: bytes) -> None:
        """Take a content header."""
        size, content = self._content.header(payload)
        self._publishing.refuse_large(size, len(payload) - HEADER_FIELDS)
        if content is not None:
            self._publishing.publish(*content, self._transaction)

    def content_body(self, payload: bytes) -> None:
        """Take a part of a body."""
        content = self._content.body(payload)
        self._count_unfinished()
        if content is not None:
            self._publishing.publish(*content, self._transaction)

    def _abandon_content(self) -> None:
        self._content.abandon()
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Let what has come of a body count as memory."""
        held = self._content.held_bytes
        self._vhost.uncommitted_bytes += held - self._unfinished_bytes
        self._unfinished_bytes = held

    def ack(self, first: int, last: int) -> None:
        """Acknowledge each delivery from a tag to another one; it `settles_now`."""
        if self._content.method is not None:
            raise self._content.expectation
        self._requests.ack(first, last)

    def turn_ended(self) -> None:
        """Pass on what waited for the end of the turn."""
        if not self.closing:
            self._requests.flush_acks()

    def send_confirms(self) -> None:
        """Send the confirms that wait."""
        self._outgoing.send_confirms()

    def _expect_method(self) -> None:
        if self._content.method is not None:
            raise self._content.expectation

    # -- settling

    def _ack(self, method: m.BasicAck) -> None:
        self._settle(method.ids, method.delivery_tag, "ack", multiple=method.multiple)

    def _reject(self, method: m.BasicReject) -> None:
        outcome: SettleOutcome = "requeue" if method.requeue else "reject"
        self._settle(method.ids, method.delivery_tag, outcome, multiple=False)

    def _nack(self, method: m.BasicNack) -> None:
        outcome: SettleOutcome = "requeue" if method.requeue else "reject"
        self._settle(method.ids, method.delivery_tag, outcome, multiple=method.multiple)

    def _settle(
        self, method: tuple[int, int], tag: int, outcome: SettleOutcome, *, multiple: bool
    ) -> None:
        if self._transaction is None:
            self._requests.settle(tag, method, multiple=multiple, outcome=outcome)
            return
        tags = self._vhost.unacked_tags(self._requests.actor) - self._transaction.settled
        if tag or not multiple:
            if tag not in tags:
                raise error(PRECONDITION_FAILED, f"unknown delivery tag {tag}")
            tags = {each for each in tags if each <= tag} if multiple else {tag}
        self._transaction.settle(tags, outcome)

    def _recover(self, method: m.BasicRecover | m.BasicRecoverAsync) -> None:
        if not method.requeue:
            raise error(NOT_IMPLEMENTED, "requeue=false")
        self._requests.flush_acks()
        if isinstance(method, m.BasicRecover):
            self._outgoing.method(m.BasicRecoverOk())  # before what is delivered again
        settled = None if self._transaction is None else self._transaction.settled
        if not settled:
            self._requests.ask(method.ids, commands.Recover(channel=self.name), nothing)
            return
        unacked = self._vhost.unacked_tags(self._requests.actor)
        for tag in sorted(unacked - settled):
            self._requests.settle(tag, method.ids, multiple=False, outcome="requeue")

    # -- transactions

    def _tx_select(self, _method: m.TxSelect) -> None:
        if self._outgoing.confirms.selected:
            raise error(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
        if self._transaction is None:
            self._transaction = Transaction(self._requests, self._vhost)
            self.settles_now = False
        self._outgoing.method(m.TxSelectOk())

    def _tx_commit(self, _method: m.TxCommit) -> None:
        transaction = self._in_transaction()
        if transaction.only_settles:  # RabbitMQ answers before its queues hear of it
            self._consuming.hold()
        transaction.commit(self._committed)

    def _committed(self, is_complete: bool) -> None:  # noqa: FBT001 - a transaction calls it
        if is_complete:
            self._outgoing.method(m.TxCommitOk())
            self._consuming.let_go()
        else:
            self.fail(error(PRECONDITION_FAILED, "partial tx completion"), m.TxCommit.ids)

    def _tx_rollback(self, _method: m.TxRollback) -> None:
        self._in_transaction().roll_back()
        self._outgoing.method(m.TxRollbackOk())

    def _in_transaction(self) -> Transaction:
        if self._transaction is None:
            raise error(PRECONDITION_FAILED, "channel is not transactional")
        return self._transaction

    # -- the channel itself

    def _open_again(self, _method: m.ChannelOpen) -> None:
        raise error(CHANNEL_ERROR, "second 'channel.open' seen")

    def _flow(self, method: m.ChannelFlow) -> None:
        if not method.active:
            raise error(NOT_IMPLEMENTED, "active=false")
        self._outgoing.method(m.ChannelFlowOk(active=True))

    def _access(self, _method: m.AccessRequest) -> None:
        self._outgoing.method(m.AccessRequestOk())

    def _confirm_select(self, method: m.ConfirmSelect) -> None:
        if self._transaction is not None:
            raise error(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
        self._outgoing.confirms.selected = True
        if not method.nowait:
            self._outgoing.method(m.ConfirmSelectOk())

    def _close(self, method: m.ChannelClose) -> None:
        def closed(_result: dict[str, Any]) -> None:
            self.forget()
            self._outgoing.method(m.ChannelCloseOk())
            if self.parked is None:
                self._peer.channel_closed(self.number)
            else:  # the frames that wait come first
                self._is_gone = True

        self._leave(method.ids, closed, is_failure=False)

    def _leave(self, method: tuple[int, int], closed: Answered, *, is_failure: bool) -> None:
        """Close the channel in the broker: consumers end, unacknowledged messages return.

        What was published before may have its confirm, or come back, before it is closed.
        """
        closing = commands.CloseChannel(channel=self.name, is_failure=is_failure)
        self._requests.ask(method, closing, closed)
        if not self._requests.is_over:
            self.park([])

    def hold(self, *, held: bool) -> None:
        """Stop deliveries to the client, which does not read them, or resume them."""
        flow = commands.Flow(active=not held, channel=self.name)
        self._requests.ask(m.ChannelFlow.ids, flow, nothing)

    def forget(self) -> None:
        """Hear nothing from the broker any more."""
        self._outgoing.send_confirms()
        self._vhost.forget(self.name)
        self._replies.remove(self.name)
        self._requests.forget()
        self._abandon_content()
        if self._transaction is not None:
            self._transaction.roll_back()

    def fail(self, failure: AmqpError, method: tuple[int, int]) -> None:
        """Close the channel, or the connection, because of an error that the server found.

        What the broker refused before comes first: then the channel is closed already.
        """
        self._abandon_content()
        settled = self._requests.is_settled()
        if self._requests.is_over:
            return
        if not settled:
            self._parked_failure = self._parked_failure or (failure, method)
            if self.parked is None:
                self.park([])
        elif failure.ends_connection:
            self._peer.fail(failure, method)
        else:
            told = failure.settled()

            def closed(_result: dict[str, Any]) -> None:
                self._tell_closed(told, method)

            self._leave(method, closed, is_failure=True)

    def _tell_closed(self, failure: AmqpError, method: tuple[int, int]) -> None:
        """Tell the client that the channel is closed."""
        self.forget()
        self.closing = True
        self.flows = False
        self._outgoing.method(m.ChannelClose(failure.code, reply_text(failure.text), *method))

    # -- what the broker says

    def confirmed(self, out: ConfirmOut) -> None:
        """See `Listener`."""
        if self._transaction is not None:
            self._transaction.heard(out)
        elif self._outgoing.confirms.heard(out):
            self._peer.output.has_confirms(self.number)

    def hear(self, out: Outbound, stored: Stored | None) -> None:
        """See `Listener`."""
        match out:
            case AnswerOut():
                self._requests.answered(out)
                while self._cancelled:
                    self._cancel(self._cancelled.popleft())
            case ReturnOut():
                assert stored is not None, "a returned message is a message"
                self._outgoing.returned(out, stored)
            case CancelOut():
                if self._vhost.asking is self._requests.actor:  # that is answered first
                    self._cancelled.append(out.consumer)
                else:
                    self._cancel(out.consumer)
            case PublishErrorOut():
                self._refused(AmqpError(out.refusal.code, out.refusal.text), PUBLISH_METHOD)

    def _timed_out(self, timeout_ms: int) -> None:
        """The broker has closed the channel: a delivery was not settled for so long."""
        text = (
            f"delivery acknowledgement on channel {self.number} timed out. "
            f"Timeout value used: {timeout_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        self._refused(error(PRECONDITION_FAILED, text), (0, 0))

    def _cancel(self, consumer: str) -> None:
        """The broker has ended a consumer."""
        self._consuming.ended(consumer)
        if self._peer.hears_cancels:
            self._outgoing.method(m.BasicCancel(consumer, nowait=True))

    def _refused(self, failure: AmqpError, method: tuple[int, int]) -> None:
        """Tell that the broker refused something: it has closed the channel, or the connection."""
        if failure.ends_connection:
            self._peer.end(failure, method)
        else:
            self._tell_closed(failure, method)

    def _answer(self, method: m.Method) -> Answered:
        return lambda _result: self._outgoing.method(method)

    def _ignore(self, _method: m.Method) -> None:
        """Take an answer that tells nothing."""

    HANDLERS: ClassVar[dict[type[m.Method], Callable[["Channel", Any], None]]] = {
        m.ChannelOpen: _open_again,
        m.ChannelFlow: _flow,
        m.ChannelClose: _close,
        m.AccessRequest: _access,
        m.BasicAck: _ack,
        m.BasicCancelOk: _ignore,
        m.BasicReject: _reject,
        m.BasicNack: _nack,
        m.BasicRecover: _recover,
        m.BasicRecoverAsync: _recover,
        m.ConfirmSelect: _confirm_select,
        m.TxSelect: _tx_select,
        m.TxCommit: _tx_commit,
        m.TxRollback: _tx_rollback,
    }


def _only_asks(method: m.Method) -> bool:
    """Whether a method asks the broker for something, whatever is answered before."""
    if isinstance(method, m.QueueDelete) and (method.if_unused or method.if_empty):
        return False  # it depends on the type of the queue
    if isinstance(method, _ASK_OF_A_QUEUE):  # the last one declared may not be known yet
        return bool(method.queue) and not method.queue.startswith(REPLY_TO_QUEUE)
    return isinstance(method, _ASK_ONLY)
