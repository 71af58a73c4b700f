"""The methods of AMQP 0-9-1, with RabbitMQ's extensions: structs with fields in wire order.

`method_codec.py` reads and writes them.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from topology.values import Table

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
ShortText = Annotated[str, "shortstr"]
LongText = Annotated[bytes, "longstr"]
Bit = Annotated[bool, "bit"]
FieldTable = Annotated[Table, "table"]


class Method(msgspec.Struct):
    """The base of all methods; `ids` is class and method."""

    ids: ClassVar[tuple[int, int]]


class ConnectionStart(Method):
    """The server begins."""

    ids = (10, 10)
    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = {}
    mechanisms: LongText = b""
    locales: LongText = b"en_US"


class ConnectionStartOk(Method):
    """The client chooses a mechanism and says who it is."""

    ids = (10, 11)
    client_properties: FieldTable = {}
    mechanism: ShortText = ""
    response: LongText = b""
    locale: ShortText = ""


class ConnectionSecure(Method):
    """The server asks for more of a login."""

    ids = (10, 20)
    challenge: LongText = b""


class ConnectionSecureOk(Method):
    """The client's answer."""

    ids = (10, 21)
    response: LongText = b""


class ConnectionTune(Method):
    """The server's limits."""

    ids = (10, 30)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method):
    """The limits that the client chose."""

    ids = (10, 31)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method):
    """The client names its vhost."""

    ids = (10, 40)
    virtual_host: ShortText = "/"
    reserved_1: ShortText = ""
    reserved_2: Bit = False


class ConnectionOpenOk(Method):
    """The connection is open."""

    ids = (10, 41)
    reserved_1: ShortText = ""


class ConnectionClose(Method):
    """One side ends the connection, and says why."""

    ids = (10, 50)
    reply_code: Short = 200
    reply_text: ShortText = ""
    class_id: Short = 0
    method_id: Short = 0


class ConnectionCloseOk(Method):
    """The other side agrees."""

    ids = (10, 51)


class ConnectionBlocked(Method):
    """Publishing connections are not read for now."""

    ids = (10, 60)
    reason: ShortText = ""


class ConnectionUnblocked(Method):
    """They are read again."""

    ids = (10, 61)


class ConnectionUpdateSecret(Method):
    """The client has a new secret."""

    ids = (10, 70)
    new_secret: LongText = b""
    reason: ShortText = ""


class ConnectionUpdateSecretOk(Method):
    """The secret is accepted."""

    ids = (10, 71)


class ChannelOpen(Method):
    """Open a channel."""

    ids = (20, 10)
    reserved_1: ShortText = ""


class ChannelOpenOk(Method):
    """It is open."""

    ids = (20, 11)
    reserved_1: LongText = b""


class ChannelFlow(Method):
    """Start or stop the flow of content."""

    ids = (20, 20)
    active: Bit = False


class ChannelFlowOk(Method):
    """The flow is as asked."""

    ids = (20, 21)
    active: Bit = False


class ChannelClose(Method):
    """One side ends the channel, and says why."""

    ids = (20, 40)
    reply_code: Short = 200
    reply_text: ShortText = ""
    class_id: Short = 0
    method_id: Short = 0


class ChannelCloseOk(Method):
    """The other side agrees."""

    ids = (20, 41)


class AccessRequest(Method):
    """A relic of AMQP 0-8 that RabbitMQ still answers."""

    ids = (30, 10)
    realm: ShortText = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method):
    """Its answer."""

    ids = (30, 11)
    ticket: Short = 1


class ExchangeDeclare(Method):
    """Declare an exchange."""

    ids = (40, 10)
    ticket: Short = 0
    exchange: ShortText = ""
    type: ShortText = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: FieldTable = {}


class ExchangeDeclareOk(Method):
    """It is declared."""

    ids = (40, 11)


class ExchangeDelete(Method):
    """Delete an exchange."""

    ids = (40, 20)
    ticket: Short = 0
    exchange: ShortText = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method):
    """It is deleted."""

    ids = (40, 21)


class ExchangeBind(Method):
    """Bind an exchange to an exchange."""

    ids = (40, 30)
    ticket: Short = 0
    destination: ShortText = ""
    source: ShortText = ""
    routing_key: ShortText = ""
    nowait: Bit = False
    arguments: FieldTable = {}


class ExchangeBindOk(Method):
    """They are bound."""

    ids = (40, 31)


class ExchangeUnbind(Method):
    """Remove a binding between exchanges."""

    ids = (40, 40)
    ticket: Short = 0
    destination: ShortText = ""
    source: ShortText = ""
    routing_key: ShortText = ""
    nowait: Bit = False
    arguments: FieldTable = {}


class ExchangeUnbindOk(Method):
    """It is removed."""

    ids = (40, 51)


class QueueDeclare(Method):
    """Declare a queue."""

    ids = (50, 10)
    ticket: Short = 0
    queue: ShortText = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: FieldTable = {}


class QueueDeclareOk(Method):
    """It is declared, and holds this much."""

    ids = (50, 11)
    queue: ShortText = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method):
    """Bind a queue to an exchange."""

    ids = (50, 20)
    ticket: Short = 0
    queue: ShortText = ""
    exchange: ShortText = ""
    routing_key: ShortText = ""
    nowait: Bit = False
    arguments: FieldTable = {}


class QueueBindOk(Method):
    """They are bound."""

    ids = (50, 21)


class QueuePurge(Method):
    """Remove the ready messages of a queue."""

    ids = (50, 30)
    ticket: Short = 0
    queue: ShortText = ""
    nowait: Bit = False


class QueuePurgeOk(Method):
    """They are removed."""

    ids = (50, 31)
    message_count: Long = 0


class QueueDelete(Method):
    """Delete a queue."""

    ids = (50, 40)
    ticket: Short = 0
    queue: ShortText = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method):
    """It is deleted."""

    ids = (50, 41)
    message_count: Long = 0


class QueueUnbind(Method):
    """Remove a binding of a queue."""

    ids = (50, 50)
    ticket: Short = 0
    queue: ShortText = ""
    exchange: ShortText = ""
    routing_key: ShortText = ""
    arguments: FieldTable = {}


class QueueUnbindOk(Method):
    """It is removed."""

    ids = (50, 51)


class BasicQos(Method):
    """Limit how much is unacknowledged."""

    ids = (60, 10)
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


class BasicQosOk(Method):
    """The limit is set."""

    ids = (60, 11)


class BasicConsume(Method):
    """Start a consumer."""

    ids = (60, 20)
    ticket: Short = 0
    queue: ShortText = ""
    consumer_tag: ShortText = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: FieldTable = {}


class BasicConsumeOk(Method):
    """It is started."""

    ids = (60, 21)
    consumer_tag: ShortText = ""


class BasicCancel(Method):
    """End a consumer; from the server: its queue is gone."""

    ids = (60, 30)
    consumer_tag: ShortText = ""
    nowait: Bit = False


class BasicCancelOk(Method):
    """It is ended."""

    ids = (60, 31)
    consumer_tag: ShortText = ""


class BasicPublish(Method):
    """Publish; the content follows."""

    ids = (60, 40)
    ticket: Short = 0
    exchange: ShortText = ""
    routing_key: ShortText = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method):
    """A message comes back to its publisher; the content follows."""

    ids = (60, 50)
    reply_code: Short = 0
    reply_text: ShortText = ""
    exchange: ShortText = ""
    routing_key: ShortText = ""


class BasicDeliver(Method):
    """A message for a consumer; the content follows."""

    ids = (60, 60)
    consumer_tag: ShortText = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortText = ""
    routing_key: ShortText = ""


class BasicGet(Method):
    """Ask for one message."""

    ids = (60, 70)
    ticket: Short = 0
    queue: ShortText = ""
    no_ack: Bit = False


class BasicGetOk(Method):
    """Here it is; the content follows."""

    ids = (60, 71)
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortText = ""
    routing_key: ShortText = ""
    message_count: Long = 0


class BasicGetEmpty(Method):
    """There is none."""

    ids = (60, 72)
    reserved_1: ShortText = ""


class BasicAck(Method):
    """Acknowledge deliveries; from the server: confirm publishes."""

    ids = (60, 80)
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method):
    """Reject a delivery."""

    ids = (60, 90)
    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(Method):
    """Requeue what is unacknowledged, without an answer."""

    ids = (60, 100)
    requeue: Bit = False


class BasicRecover(Method):
    """Requeue what is unacknowledged."""

    ids = (60, 110)
    requeue: Bit = False


class BasicRecoverOk(Method):
    """It is requeued."""

    ids = (60, 111)


class BasicNack(Method):
    """Reject deliveries; from the server: publishes that are not taken."""

    ids = (60, 120)
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


class ConfirmSelect(Method):
    """Confirm the publishes of this channel."""

    ids = (85, 10)
    nowait: Bit = False


class ConfirmSelectOk(Method):
    """They are confirmed from now on."""

    ids = (85, 11)


class TxSelect(Method):
    """Make the channel transactional."""

    ids = (90, 10)


class TxSelectOk(Method):
    """It is."""

    ids = (90, 11)


class TxCommit(Method):
    """Commit the transaction."""

    ids = (90, 20)


class TxCommitOk(Method):
    """It is committed."""

    ids = (90, 21)


class TxRollback(Method):
    """Roll the transaction back."""

    ids = (90, 30)


class TxRollbackOk(Method):
    """It is rolled back."""

    ids = (90, 31)


METHODS: Final[dict[tuple[int, int], type[Method]]] = {
    kind.ids: kind for kind in Method.__subclasses__()
}
