"""What a broker can be asked to do; the vocabulary of scenario files and of the command topic.

The types of the members say what is valid: from them follow how a command is read from JSON
(`protocol.command_json`), how it travels to its shard, and the schema of scenario files.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from streaming.broker.redrive_letters import Letter, RedriveOptions
from topology.declarations import MAX_NAME_BYTES, Binding, Exchange, Policy, Queue

MAX_COUNT: Final = 1_000_000
"""How many messages one `get` may fetch."""

MAX_PARAMETER: Final = 1 << 16
"""The longest value of a parameter, in characters."""

Name: TypeAlias = Annotated[str, Meta(max_length=MAX_NAME_BYTES)]
"""A short string of AMQP. Its limit is in bytes, which whoever reads it has to check too."""

MESSAGE_ID: Final = "^[0-9]{1,18}/[0-9]{1,18}/[0-9]{1,18}$"
"""Topic number, partition and offset."""

MessageId: TypeAlias = Annotated[str, Meta(pattern=MESSAGE_ID)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 53)]
Prefetch: TypeAlias = Annotated[int, Meta(ge=0, le=65535)]
Total: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 31)]

SettleOutcome = Literal["ack", "requeue", "reject"]
RedriveAction = Literal["pause", "resume", "cancel", "status"]
LimitName = Literal["max-connections", "max-queues"]
VerdictWord = Literal["trust", "share", "stop", "finish"]


class Command(
    msgspec.Struct, frozen=True, tag_field="op", kw_only=True, forbid_unknown_fields=True
):
    """The base of all commands; `op` in JSON selects one. Answers go to `channel`.

    `reply_id` is the asker's own mark, copied into the answer.
    """

    reply_id: str | None = None


class Get(Command, frozen=True, tag="get"):
    """Up to `count` single gets, until the queue is empty. Deliveries are `label/0`, ...

    `lease_ms` is the lease of the channel if this command opens it. With `message` only ready
    copies of that message count, wherever in the queue they are.
    `lane`: in a vhost of several lanes, the one to get from.
    """

    queue: Name
    count: Annotated[int, Meta(ge=0, le=MAX_COUNT)] = 1
    message: MessageId | None = None
    label: Name | None = msgspec.field(name="as", default=None)
    auto_ack: bool = False
    channel: Name = "c0"
    lease_ms: Positive | None = None
    lane: Whole | None = None


class GetOnLanes(Get, frozen=True, tag="get", kw_only=True):
    """A `Get` as each lane has it: those whose `turn` it is not get nothing (`lanes`)."""

    turn: int


class Consume(Command, frozen=True, tag="consume"):
    """Start a consumer. `prefetch` 0: as the last `Qos` says; `lease_ms`: see `Get`.

    `exclusive`: the only one of its queue. `no_local` is accepted and ignored, as in RabbitMQ.
    """

    queue: Name
    label: Name = msgspec.field(name="as")
    prefetch: Prefetch = 0
    auto_ack: bool = False
    channel: Name = "c0"
    exclusive: bool = False
    no_local: bool = False
    arguments: dict[str, Any] = {}
    lease_ms: Positive | None = None


class Qos(Command, frozen=True, tag="qos"):
    """Limit unacked deliveries of a channel (R-QOS). 0 is no limit.

    `is_global`: of all its consumers together; else of each one that it starts from now on, and a
    limit on all ends. `lease_ms`: see `Get`.
    """

    prefetch: Prefetch
    is_global: bool = msgspec.field(name="global", default=False)
    channel: Name = "c0"
    lease_ms: Positive | None = None


class Flow(Command, frozen=True, tag="flow"):
    """Stop deliveries to the consumers of a channel, or resume them (R-QOS-7); gets go on."""

    active: bool
    channel: Name = "c0"
    lease_ms: Positive | None = None


class Cancel(Command, frozen=True, tag="cancel"):
    """Stop a consumer; its unacked deliveries stay unacked."""

    label: Name = msgspec.field(name="as")
    channel: Name | None = None


class Ack(Command, frozen=True, tag="ack"):
    """Settle deliveries, named by ref (`label/n`) or delivery id, in list order."""

    refs: tuple[str, ...]
    multiple: bool = False
    channel: Name | None = None


class Reject(Command, frozen=True, tag="reject"):
    """Like `Ack`, negatively; never multiple. `reason`: why, in the consumer's words."""

    refs: tuple[str, ...]
    requeue: bool = False
    channel: Name | None = None
    reason: str | None = None


class Nack(Command, frozen=True, tag="nack"):
    """Like `Reject`, with `multiple`."""

    refs: tuple[str, ...]
    requeue: bool = False
    multiple: bool = False
    channel: Name | None = None
    reason: str | None = None


class Settle(Command, frozen=True, tag="settle"):
    """Settle deliveries of the channel by AMQP's delivery tags; an unknown one is refused: 406.

    `multiple`: all up to `tag`, which has to be known; 0 is all. Else `tag`; with `last`, those
    from `tag` to `last`, one after the other. `reason`: as in `Reject`.
    """

    tag: Whole
    last: Whole = 0
    multiple: bool = False
    outcome: SettleOutcome = "ack"
    channel: Name = "c0"
    reason: str | None = None


class Recover(Command, frozen=True, tag="recover"):
    """Requeue all unacked deliveries of the channel; without `requeue` it is refused: 540."""

    channel: Name = "c0"
    requeue: bool = True


class OpenChannel(Command, frozen=True, tag="open_channel"):
    """Open a channel with a lease: it is closed unless a command of it arrives every `lease_ms`.

    `connection`: the name of the user's connection that it belongs to, which begins with its first
    channel.
    """

    channel: Name
    lease_ms: Positive | None = None
    connection: Name | None = None


class Renew(Command, frozen=True, tag="renew"):
    """Renew the channel's lease and nothing else."""

    channel: Name


class CloseChannel(Command, frozen=True, tag="close_channel"):
    """Close a channel: consumers end, unacked deliveries are requeued.

    Attributes:
        is_failure: an error closes it, and not its client (R-CONS-5).
    """

    channel: Name = "c0"
    is_failure: bool = False


class CloseConnection(Command, frozen=True, tag="close_connection"):
    """Close a connection of the user: its channels are closed, its exclusive queues deleted."""

    connection: Name
    channel: Name = "admin"


class Depth(Command, frozen=True, tag="depth"):
    """How many messages are ready; counts as a use of the queue (R-QEXP-2)."""

    queue: Name
    channel: Name = "admin"


class Purge(Command, frozen=True, tag="purge"):
    """Remove all ready messages without dead-lettering (R-GONE-1)."""

    queue: Name
    channel: Name = "admin"


class DeleteQueue(Command, frozen=True, tag="delete_queue"):
    """Delete a queue with its messages; a missing queue is not an error."""

    queue: Name
    if_unused: bool = False
    if_empty: bool = False
    channel: Name = "admin"


class DeleteExchange(Command, frozen=True, tag="delete_exchange"):
    """Delete an exchange and all bindings from and to it."""

    exchange: Name
    if_unused: bool = False
    channel: Name = "admin"


class DeclareQueue(Command, frozen=True, tag="declare_queue"):
    """Declare a queue; `passive` only asks whether it exists.

    `lease_ms` is the channel's lease, if this command opens the channel for an exclusive queue.
    """

    queue: Queue
    passive: bool = False
    channel: Name = "admin"
    lease_ms: Positive | None = None


class DeclareExchange(Command, frozen=True, tag="declare_exchange"):
    """Declare an exchange; `passive` only asks whether it exists."""

    exchange: Exchange
    passive: bool = False
    channel: Name = "admin"


class Bind(Command, frozen=True, tag="bind"):
    """Add a binding."""

    binding: Binding
    channel: Name = "admin"


class Unbind(Command, frozen=True, tag="unbind"):
    """Remove a binding; one that does not exist is not an error."""

    binding: Binding
    channel: Name = "admin"


class SetPolicy(Command, frozen=True, tag="set_policy"):
    """Create or replace a policy; takes effect at once (R-POL-8)."""

    policy: Policy
    channel: Name = "admin"


class SetOperatorPolicy(Command, frozen=True, tag="set_operator_policy"):
    """Create or replace an operator policy."""

    policy: Policy
    channel: Name = "admin"


class ClearPolicy(Command, frozen=True, tag="clear_policy"):
    """Remove a policy."""

    name: Name
    channel: Name = "admin"


class ClearOperatorPolicy(Command, frozen=True, tag="clear_operator_policy"):
    """Remove an operator policy."""

    name: Name
    channel: Name = "admin"


class SetPermissions(Command, frozen=True, tag="set_permissions"):
    """What a user may configure, write to and read from: three patterns."""

    user: Name
    configure: str
    write: str
    read: str
    channel: Name = "admin"


class ClearPermissions(Command, frozen=True, tag="clear_permissions"):
    """Take all permissions of a user away."""

    user: Name
    channel: Name = "admin"


class SetTopicPermissions(Command, frozen=True, tag="set_topic_permissions"):
    """Which routing keys of a topic exchange a user may publish to, and bind with: two patterns.

    In them `{username}` and `{vhost}` stand for the names.
    """

    user: Name
    exchange: Name
    write: str
    read: str
    channel: Name = "admin"


class ClearTopicPermissions(Command, frozen=True, tag="clear_topic_permissions"):
    """Let a user use all keys again: of one exchange, or of all."""

    user: Name
    exchange: Name | None = None
    channel: Name = "admin"


class SetVhostLimit(Command, frozen=True, tag="set_vhost_limit"):
    """How many queues or connections the vhost may have; below 0: as many as there are."""

    limit: LimitName
    value: Annotated[int, Meta(ge=-1, le=1 << 31)]
    channel: Name = "admin"


class ClearVhostLimit(Command, frozen=True, tag="clear_vhost_limit"):
    """Remove a limit of the vhost."""

    limit: LimitName
    channel: Name = "admin"


class SetParameter(Command, frozen=True, tag="set_parameter"):
    """Keep something that whoever serves the vhost wants to know again: users, descriptions.

    It decides nothing in the broker. `secret` is kept beside the value, and shown in no event.
    """

    component: Name
    name: Name
    value: Annotated[str, Meta(max_length=MAX_PARAMETER)]
    secret: Name | None = None
    channel: Name = "admin"


class Deployed(Command, frozen=True, tag="deployed"):
    """Note that a version of a service was deployed. It changes nothing but the record of changes.

    `queues`: those that the service works on; none: it may concern every queue of the vhost.
    """

    service: Name
    version: Name
    queues: tuple[str, ...] = ()
    reason: str | None = None
    channel: Name = "admin"


class ImportDefinitions(Command, frozen=True, tag="import_definitions"):
    """Declare everything a definitions document holds for this vhost (R-DEF-4)."""

    definitions: dict[str, Any]
    channel: Name = "admin"


class ExportDefinitions(Command, frozen=True, tag="export_definitions"):
    """A page of what is declared, as objects of a definitions document, from object `first` on."""

    first: Whole = 0
    channel: Name = "admin"


class CheckedPublish(msgspec.Struct, frozen=True, tag_field="op", tag="publish", kw_only=True):
    """A publish in `Check`: the fields that decide whether it is refused; `headers`: CC and BCC."""

    exchange: Name = ""
    expiration: str | None = None
    headers: dict[str, Any] = {}
    user_id: Name | None = None
    routing_key: Name = ""


class Check(Command, frozen=True, tag="check"):
    """Ask whether publishes and settlements, made in this order, would be refused.

    Nothing is done, and a refusal closes no channel. A settlement of what is not unacked, which
    alone would be reported as missing, counts as refused: 406, as in RabbitMQ.
    """

    steps: tuple[CheckedPublish | Ack | Reject | Nack, ...]
    channel: Name = "admin"


class Redrive(Command, frozen=True, tag="redrive"):
    """Move the letters of a sealed plan, or a part of them: `letters` begin at number `first`.

    The redrive starts once all `total` letters have arrived. The same id again moves nothing.
    """

    id: Name
    reason: str
    seal: str
    total: Total
    letters: tuple[Letter, ...]
    first: Whole = 0
    options: RedriveOptions = RedriveOptions()
    channel: Name = "admin"


class ControlRedrive(Command, frozen=True, tag="control_redrive"):
    """Pause, resume or cancel an open redrive, or ask for its status; `action` says which."""

    id: Name
    action: RedriveAction
    reason: str
    channel: Name = "admin"


class RedriveVerdict(Command, frozen=True, tag="redrive_verdict"):
    """What the lanes of a vhost do next in a redrive, as the job finds from all of them.

    Attributes:
        round: the one that the verdict ends; in another one it changes nothing.
        verdict: `trust` the canary, `stop`, `finish`; `share`: the lane `lane` moves `share` more
            letters for the canary.
    """

    id: Name
    round: Whole
    verdict: VerdictWord
    reason: str = ""
    lane: Whole | None = None
    share: Total = 0


class Tick(Command, frozen=True, tag="tick"):
    """Nothing but the passing of time; on one lane, or on all."""

    lane: Whole | None = None


Settlement = Ack | Reject | Nack
AnyCommand = (
    Get
    | Consume
    | Qos
    | Flow
    | Cancel
    | Ack
    | Reject
    | Nack
    | Settle
    | Recover
    | OpenChannel
    | Renew
    | CloseChannel
    | CloseConnection
    | Depth
    | Purge
    | DeleteQueue
    | DeleteExchange
    | DeclareQueue
    | DeclareExchange
    | Bind
    | Unbind
    | SetPolicy
    | SetOperatorPolicy
    | ClearPolicy
    | ClearOperatorPolicy
    | SetPermissions
    | ClearPermissions
    | SetTopicPermissions
    | ClearTopicPermissions
    | SetVhostLimit
    | ClearVhostLimit
    | SetParameter
    | Deployed
    | ImportDefinitions
    | ExportDefinitions
    | Check
    | Redrive
    | ControlRedrive
    | RedriveVerdict
    | Tick
)
