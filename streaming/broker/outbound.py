"""What the broker tells its clients: deliveries, confirms, returns, answers.

Each names the row of the event it follows, so that (vhost, lane, seq) is a stable id (D3b). Bodies
are not included: `copy.message` or `message` locates them.
"""

from typing import Any, Final, NamedTuple

import msgspec

from streaming.broker.events import Actor
from streaming.broker.lanes import LanePart, RecordId
from streaming.broker.message import Copy, Envelope, Message
from topology.refusals import Refusal

OUTBOUND_STEP: Final = 1 << 32
"""Where numbers must not repeat those of a lost batch, they begin at the next multiple of this."""


def next_start(number: int) -> int:
    """Return the first number that no lost batch after this one can have used."""
    return (number // OUTBOUND_STEP + 1) * OUTBOUND_STEP


class DeliveryOut(msgspec.Struct, gc=False):
    """A message handed to a consumer or a get.

    Nearly every message makes one, so its texts are composed only when they are read.

    Attributes:
        label, label_number: the parts of `ref`.
        consumer_id, number: the parts of `delivery_id`.
        requeue_count: how often the copy was requeued before; `redelivered` follows from it.
        failures: of the copy (R-DLV-7).
        consumer_number: of the consumer on its channel; 0 for gets.
        tag: AMQP's delivery tag: 1 for the channel's first delivery, those with automatic ack
            included.
    """

    row: int
    actor: Actor
    label: str
    label_number: int
    consumer_id: str
    number: int
    queue: str
    copy: Copy
    requeue_count: int
    failures: int
    quorum: bool
    consumer_number: int
    tag: int

    @property
    def got(self) -> bool:
        """Whether a get received it, not a consumer."""
        return self.consumer_number == 0

    @property
    def delivery_count(self) -> int:
        """How often it was handed out before, as RabbitMQ counts; above 0 means redelivered."""
        return self.requeue_count or (self.failures if self.quorum else 0)

    @property
    def ref(self) -> str:
        """`label/n`; empty for a get without label."""
        return f"{self.label}/{self.label_number}" if self.label else ""

    @property
    def delivery_id(self) -> str:
        """What settlements may name instead of the ref; empty with automatic ack."""
        return f"{self.consumer_id}.{self.number}" if self.consumer_id else ""


class ConfirmOut(msgspec.Struct, gc=False):
    """A publisher confirm: `ack` false is a nack (R-ROUTE-13).

    `part`: another lane has queues of this message too, and both confirm together.
    """

    row: int
    actor: Actor
    message: Message
    ack: bool
    part: bool = False


class ReturnOut(NamedTuple):
    """A message returned to its publisher: 312 NO_ROUTE or 313 NO_CONSUMERS (R-ROUTE-9)."""

    row: int
    actor: Actor
    message: Message
    envelope: Envelope
    code: int
    text: str


class PublishErrorOut(NamedTuple):
    """A publish refused with a channel error."""

    row: int
    actor: Actor
    message: Message
    refusal: Refusal


class AnswerOut(NamedTuple):
    """The answer to a command: a result, or a refusal.

    `part`: the record of the command, if this is only what one lane answers.
    """

    row: int
    actor: Actor
    op: str
    reply_id: str | None
    result: dict[str, Any]
    refusal: Refusal | None
    part: RecordId | None = None


SETTLEMENTS: Final = frozenset({"ack", "nack", "reject", "settle"})


def is_answered(
    op: str, reply_id: str | None, result: dict[str, Any], refusal: Refusal | None
) -> bool:
    """Whether the answer to a command is sent.

    A settlement of which nothing is missing is answered only if it has a `reply_id`: acks are the
    most frequent commands, and RabbitMQ answers none.
    """
    return op not in SETTLEMENTS or reply_id is not None or bool(result) or refusal is not None


class CancelOut(NamedTuple):
    """The broker cancelled a consumer because its queue was deleted (R-GONE)."""

    row: int
    actor: Actor
    consumer: str
    queue: str


def lane_part(out: "Outbound", lane: int, seq: int, event_seq: int) -> LanePart | None:
    """What a lane contributes to a record that all lanes make together; None for others."""
    match out:
        case AnswerOut(part=(_, _, _) as place):
            refusal = out.refusal
            return LanePart(
                lane,
                place,
                out.actor.user,
                out.actor.channel,
                out.op,
                out.reply_id,
                out.result,
                0 if refusal is None else refusal.code,
                "" if refusal is None else refusal.text,
                seq,
                event_seq,
            )
        case ConfirmOut(part=True, message=message, ack=ack):
            place = (message.topic_number, message.partition, message.offset)
            user, channel = out.actor
            return LanePart(
                lane, place, user, channel, "", None, {"ack": ack}, 0, "", seq, event_seq
            )
        case _:
            return None


Outbound = DeliveryOut | ConfirmOut | ReturnOut | PublishErrorOut | AnswerOut | CancelOut


def with_actor(out: Outbound, actor: Actor) -> Outbound:
    """The same for another channel."""
    if isinstance(out, DeliveryOut | ConfirmOut):
        return msgspec.structs.replace(out, actor=actor)
    return out._replace(actor=actor)
