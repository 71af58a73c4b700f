"""What `/api/dlx` answers, as types: the OpenAPI document is made from them.

Those about redrives are in `redrive_answers.py`. Instants are text in ISO 8601. A value of AMQP
that JSON has not is an object such as `{"$bytes": "..."}`.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Count = Annotated[int, msgspec.Meta(ge=0)]
Source = Literal["tables", "memory"]
"""What was asked: the tables of a job, or the broker in memory."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    error: str
    reason: Any


class Pages(msgspec.Struct, Generic[T], kw_only=True):
    """One page of a list, with the numbers that RabbitMQ's lists have.

    Attributes:
        filtered_count: how many items there are in all pages.
    """

    items: list[T]
    item_count: Count
    filtered_count: Count
    page: int
    page_count: Count
    page_size: int
    source: Source = "tables"


def page_of(
    items: list[T], total: int, page: int, size: int, source: Source = "tables"
) -> Pages[T]:
    """One page of a list of so many items."""
    return Pages(
        items=items,
        item_count=len(items),
        filtered_count=total,
        page=page,
        page_count=-(-total // size),
        page_size=size,
        source=source,
    )


class DeadLetter(msgspec.Struct, kw_only=True):
    """One death of a message.

    Attributes:
        message_id: of the message, for `messages/ID`; null in memory.
        cause: in the words of the consumer that gave it up.
        count: deaths of the message for this queue and reason, this one included.
        targets: the queues that took it.
        outcome: why targets are missing; null: every target took it.
        x_death: the death records after this death, the latest first.
        body: if it was asked for.
    """

    at: Instant
    vhost: str
    queue: str
    reason: str
    cause: str | None = None
    message_id: str | None = None
    count: int | None = None
    exchange: str | None = None
    routing_key: str | None = None
    routing_keys: list[str] | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    targets: list[str] | None = None
    outcome: str | None = None
    x_death: list[dict[str, Any]] | None = None
    first_death: dict[str, Any] | None = None
    last_death: dict[str, Any] | None = None
    properties: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    kafka_headers: list[Any] | None = None
    origin: dict[str, Any] | None = None
    body_bytes: Count | None = None
    body: Any = None
    lane: int | None = None
    seq: int | None = None
    copy_id: int | None = None
    parent_copy_id: int | None = None
    batch_id: int | None = None
    query_id: str | None = None


class FacetValue(msgspec.Struct, frozen=True):
    """How many dead letters have a value of an attribute."""

    value: str
    name: str
    count: Count


class DeadLetters(Pages[DeadLetter], kw_only=True):
    """Dead letters, the latest death first.

    Attributes:
        facets: the most frequent values of `vhost`, `queue`, `reason`, `exchange` and `outcome`
            among all that the filter matches.
    """

    facets: dict[str, list[FacetValue]] = {}


class Group(msgspec.Struct, kw_only=True):
    """Dead letters that are alike.

    Attributes:
        values: what they have in common: attribute -> value.
        redriven: how many had been redriven before they died.
        lost, dropped: how many no queue took: although one was to take it, and as declared.
        trend: the deaths in each of twelve equal parts of the period.
        is_new, new: with `new_since`: whether there were none before, and the deaths since.
    """

    values: dict[str, Any]
    deaths: Count
    first_seen: Instant
    last_seen: Instant
    redriven: Count
    lost: Count
    dropped: Count
    trend: list[int]
    is_new: bool | None = None
    new: int | None = None


class StoredMessage(msgspec.Struct, kw_only=True):
    """A message as it was published. Content is null if it is not stored, or hidden."""

    vhost: str | None = None
    user: str | None = None
    channel: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    mandatory: bool | None = None
    immediate: bool | None = None
    confirm: bool | None = None
    properties: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    body_bytes: Count | None = None
    body: Any = None
    origin: dict[str, Any] | None = None


class Event(msgspec.Struct, kw_only=True):
    """Something that happened to a message."""

    at: Instant
    kind: str
    vhost: str | None = None
    queue: str | None = None
    reason: str | None = None
    copy_id: int | None = None
    parent_copy_id: int | None = None
    exchange: str | None = None
    routing_key: str | None = None
    expires_at: Instant | None = None
    number: int | None = None
    position: int | None = None
    user: str | None = None
    channel: str | None = None
    detail: dict[str, Any] | None = None
    lane: int | None = None
    seq: int | None = None
    batch_id: int | None = None


class Hold(msgspec.Struct, kw_only=True):
    """A delivery of a copy; `end` says how it ended, and is null while it is unacked."""

    user: str | None = None
    channel: str | None = None
    since: Instant
    until: Instant | None = None
    end: str | None = None


class CopyOfMessage(msgspec.Struct, kw_only=True):
    """What happened to one copy of a message.

    Attributes:
        depth: how many deaths precede it.
        why: why it died, in words; null if it did not.
        children: the copies that its death made.
    """

    copy_id: int
    parent_copy_id: int | None
    depth: int
    queue: str
    enqueued_at: Instant | None = None
    holds: list[Hold] = []
    left_at: Instant | None = None
    end: str | None = None
    reason: str | None = None
    ttl_ms: int | None = None
    why: str | None = None
    targets: list[str] = []
    outcome: str | None = None
    x_death: list[dict[str, Any]] = []
    children: list[int] = []


class Story(msgspec.Struct, kw_only=True):
    """Everything known about one message.

    Attributes:
        copies: as a tree: each is followed by those that came from it.
        now: where copies are: copy -> `ready`, `unacked` or `held`.
        hidden: why its body, headers and properties are hidden; null if they are not.
        hidden_in: the queues that you may not read, if that is why.
        version_of: the letter that an edit made this message of.
        is_partial: whether retention has removed some of its events.
    """

    message_id: str
    message: StoredMessage | None
    copies: list[CopyOfMessage]
    deaths: list[DeadLetter]
    events: list[Event]
    now: dict[str, str]
    hidden: str | None
    hidden_in: list[str]
    version_of: str | None = None
    is_partial: bool = False


class QueueThen(msgspec.Struct, kw_only=True):
    """A queue at an instant, with what is in it and the settings that result from its policies."""

    name: str
    vhost: str
    type: str | None
    messages: Count
    messages_ready: Count
    messages_unacknowledged: Count
    consumers: Count
    message_bytes: Count | None = None
    oldest_at: Instant | None = None
    policy: str | None = None
    operator_policy: str | None = None
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    effective_settings: dict[str, Any] = {}
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: dict[str, Any] = {}


class HeldCopy(msgspec.Struct, kw_only=True):
    """A message in a queue, the head first. The body is there if it was asked for."""

    vhost: str
    queue: str
    state: Literal["ready", "unacked"]
    message_id: str | None = None
    copy_id: int | None = None
    parent_copy_id: int | None = None
    enqueued_at: Instant | None = None
    expires_at: Instant | None = None
    exchange: str | None = None
    routing_key: str | None = None
    returns: Count | None = None
    properties: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    body_bytes: Count | None = None
    body: Any = None
    user: str | None = None
    channel: str | None = None


class QueueChange(msgspec.Struct, kw_only=True):
    """A copy that entered or left a queue.

    Attributes:
        why: `published`, `dead_lettered`, `redriven`, or how it left: for deaths the reason.
        from_queue: the queue where its parent died.
    """

    at: Instant
    change: Literal["entered", "left"]
    why: str
    message_id: str | None = None
    routing_key: str | None = None
    body_bytes: Count | None = None
    from_queue: str | None = None
    user: str | None = None
    channel: str | None = None
    copy_id: int | None = None


class Topology(msgspec.Struct, kw_only=True):
    """What is declared in a vhost, as definitions that can be imported into RabbitMQ."""

    source: Source
    definitions: dict[str, list[dict[str, Any]]]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs in one object.

    Attributes:
        effect: `create`: only the later topology has it; `absent`: only the earlier one has it;
            `replace` and `conflict`: both have it, with other properties; a `conflict` refuses an
            import; `skipped`: it is not supported.
        detail: what is replaced, or RabbitMQ's reply to the conflict.
    """

    effect: Literal["create", "replace", "conflict", "absent", "skipped"]
    kind: str
    name: str
    detail: str = ""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a document cannot be imported."""

    path: str
    message: str


class TopologyDiff(msgspec.Struct, kw_only=True):
    """What differs between two topologies.

    Attributes:
        same: how many objects are equal.
        problems: why the document cannot be imported; then there are no differences.
    """

    differences: list[Difference]
    same: Count
    problems: list[Fault] = []


class QueueSums(msgspec.Struct, kw_only=True):
    """The balance of one queue, or of rows that belong to none; see `dlx balance`."""

    vhost: str | None
    queue: str | None
    published: int = 0
    dead_lettered: int = 0
    ready: int = 0
    unacked: int = 0
    held: int = 0
    endings: dict[str, int] = {}
    refused: int = 0
    unexplained: int = 0


class VhostSums(msgspec.Struct, kw_only=True):
    """The messages of a vhost, and those that never became a copy."""

    vhost: str | None
    messages: int = 0
    unroutable: int = 0
    returned: int = 0
    publish_errors: int = 0


class Unexplained(msgspec.Struct, kw_only=True):
    """Rows that are missing, repeated or contradictory."""

    what: str
    vhost: str | None
    lane: int | None
    why: str
    seq: int | None = None
    copy_id: int | None = None
    queue: str | None = None
    message_id: str | None = None
    count: int = 1
    table: str | None = None


class BalanceSheet(msgspec.Struct, kw_only=True):
    """Where every message and every copy went.

    Attributes:
        batch_id: the last batch in it; null if there is none yet.
        unexplained: 0 if nothing is missing.
        findings: the first ones.
    """

    batch_id: int | None
    unexplained: Count
    vhosts: list[VhostSums]
    queues: list[QueueSums]
    findings: list[Unexplained]


class Deployment(msgspec.Struct, kw_only=True):
    """What was noted, beside the changes of the vhost."""

    service: str
    version: str
    queues: list[str]
    reason: str | None


class Clock(msgspec.Struct, kw_only=True):
    """The time of a broker in memory."""

    now_ms: int
    manual: bool
