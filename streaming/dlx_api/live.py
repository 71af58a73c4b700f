"""What can be answered without tables: from a broker in memory, as it is now."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import msgspec

from streaming.amqp.clocks import ManualClock, milliseconds, seconds_of_patience
from streaming.amqp.inspection import DeathRecord, HeldMessage, messages_in
from streaming.amqp.manual_time import ManualTime
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.dlx_api import answers, request_bodies
from streaming.dlx_api.answers import Pages, page_of
from streaming.dlx_api.asking import NO_TABLES
from streaming.dlx_api.questions import PAGE_SIZE, Question
from streaming.management.access import ADMINISTRATORS
from streaming.management.errors import ApiError, bad_request, missing, not_authorised
from streaming.management.memory import MemoryFront
from streaming.management.routing import Asked
from topology.definitions.dump import exported_sections
from topology.values import table_to_json, to_json

LIVE: Final = frozenset({"clock", "advance"})
"""What tables do not know."""

_WITHOUT_TABLES: Final = {
    "dead_letters": {"queue", "reason", "bodies", "page", "page_size"},
    "queues": {"page", "page_size"},
    "contents": {"state", "bodies", "page", "page_size"},
    "topology": set[str](),
    "clock": set[str](),
    "advance": set[str](),
}
"""What can be asked of a broker in memory, with which parameters."""


def no_tables(why: str) -> ApiError:
    """409: it needs the tables of a job."""
    return ApiError(409, NO_TABLES, f"{why} needs the tables of a job, and there are none here")


async def answer(question: Question, asked: Asked, values: Mapping[str, str], body: Any) -> Any:
    """Answer a question.

    Raises:
        ApiError: 409, it needs tables; 404 or 400.
    """
    if question.name in LIVE and not isinstance(asked.front, MemoryFront):
        raise ApiError(409, "conflict", "only a broker in memory has a clock: dlx amqp --memory")
    known = _WITHOUT_TABLES.get(question.name)
    if known is None or not isinstance(asked.front, MemoryFront):
        raise no_tables(f"/{question.path}")
    others = sorted(set(values) - known - set(question.variables))
    if others:
        raise no_tables(f"the parameter {others[0]}")
    match question.name:
        case "clock":
            return _clock(asked.front.broker)
        case "advance":
            return await _advance(asked.front.broker, body)
        case "topology":
            definitions = asked.vhost.shard.vhost.definitions()
            return answers.Topology(source="memory", definitions=exported_sections(definitions))
        case "queues":
            return _queues(asked, values)
        case "contents":
            return _contents(asked, values)
        case _:
            return _dead_letters(asked, asked.front.broker, values)


def _paged(values: Mapping[str, str]) -> tuple[int, int, slice]:
    page, size = int(values.get("page", 1)), int(values.get("page_size", PAGE_SIZE))
    return page, size, slice((page - 1) * size, page * size)


def _body(body: bytes) -> Any:
    """A body as text, if it is."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return to_json(body)


def _may_read(asked: Asked, vhost: OpenVhost, queue: str) -> bool:
    permissions = vhost.shard.vhost.permissions
    return asked.has(ADMINISTRATORS) or permissions.allows(asked.user.name, "read", queue)


def _clock(broker: MemoryBroker) -> answers.Clock:
    return answers.Clock(now_ms=broker.clock.now_ms(), manual=isinstance(broker.clock, ManualClock))


async def _advance(broker: MemoryBroker, wish: request_bodies.Advance) -> answers.Clock:
    if not isinstance(broker.clock, ManualClock):
        raise ApiError(409, "conflict", "the clock is the machine's: start with --clock manual")
    time = ManualTime(broker.server, broker.clock)
    try:
        patience_s = seconds_of_patience(wish.patience)
    except ValueError as error:
        raise bad_request(str(error)) from None
    try:
        await time.advance(milliseconds(wish.advance), patience_s)
    except ValueError as error:
        raise bad_request(f"advance: {error}") from None
    except TimeoutError as error:
        raise ApiError(409, "conflict", str(error)) from None
    return _clock(broker)


def _queues(asked: Asked, values: Mapping[str, str]) -> Pages[answers.QueueThen]:
    names = [
        (vhost, name) for vhost in asked.one_or_all() for name in sorted(vhost.shard.vhost.queues)
    ]
    page, size, part = _paged(values)
    return page_of([_queue(*one) for one in names[part]], len(names), page, size, "memory")


def _queue(vhost: OpenVhost, name: str) -> answers.QueueThen:
    queue = vhost.shard.state.queues.named(name)
    declaration, settings = queue.declaration, queue.settings
    return answers.QueueThen(
        name=name,
        vhost=vhost.name,
        type="quorum" if queue.quorum else "classic",
        messages=queue.ready + queue.unacked,
        messages_ready=queue.ready,
        messages_unacknowledged=queue.unacked,
        consumers=len(queue.line.consumers),
        policy=settings.policy,
        operator_policy=settings.operator_policy,
        dead_letter_exchange=settings.dead_letter_exchange,
        dead_letter_routing_key=settings.dead_letter_routing_key,
        durable=declaration.durable,
        auto_delete=declaration.auto_delete,
        exclusive=declaration.exclusive,
        arguments=table_to_json(declaration.arguments),
    )


def _contents(asked: Asked, values: Mapping[str, str]) -> Pages[answers.HeldCopy]:
    vhost, name = asked.vhost, values["queue"]
    if values.get("state", "ready") != "ready":
        raise no_tables("what consumers hold")
    page, size, part = _paged(values)
    if not _may_read(asked, vhost, name):
        raise not_authorised(f"no read permission for queue '{name}'")
    try:
        held = messages_in(vhost, name, part.stop)
    except KeyError:
        raise missing() from None
    total = vhost.shard.state.queues.named(name).ready
    with_bodies = values.get("bodies") == "true"
    items = [_held(vhost, name, one, with_bodies=with_bodies) for one in held[part]]
    return page_of(items, total, page, size, "memory")


def _held(vhost: OpenVhost, queue: str, one: HeldMessage, *, with_bodies: bool) -> answers.HeldCopy:
    return answers.HeldCopy(
        vhost=vhost.name,
        queue=queue,
        state="ready",
        exchange=one.exchange,
        routing_key=one.routing_key,
        properties=table_to_json(one.properties),
        headers=table_to_json(one.headers),
        body_bytes=len(one.body),
        body=_body(one.body) if with_bodies else None,
    )


def _dead_letters(
    asked: Asked, broker: MemoryBroker, values: Mapping[str, str]
) -> answers.DeadLetters:
    wanted: list[Callable[[DeathRecord], bool]] = []
    if "queue" in values:
        wanted.append(lambda one: one.queue == values["queue"])
    if "reason" in values:
        wanted.append(lambda one: one.reason == values["reason"])
    found = [
        (vhost, one)
        for vhost in asked.one_or_all()
        for one in broker.deaths[vhost.name].newest_last()
        if all(wants(one) for wants in wanted)
        and any(_may_read(asked, vhost, place) for place in one.targets or (one.queue,))
    ]
    found.sort(key=lambda pair: -pair[1].at_ms)
    page, size, part = _paged(values)
    with_bodies = values.get("bodies") == "true"
    items = [_death(*one, with_bodies=with_bodies) for one in islice(found, part.start, part.stop)]
    pages = page_of(items, len(found), page, size, "memory")
    return answers.DeadLetters(**msgspec.structs.asdict(pages))


def _death(vhost: OpenVhost, one: DeathRecord, *, with_bodies: bool) -> answers.DeadLetter:
    properties = dict(one.properties)
    headers = properties.pop("headers", None)
    return answers.DeadLetter(
        at=datetime.fromtimestamp(one.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        vhost=vhost.name,
        queue=one.queue,
        reason=one.reason,
        targets=list(one.targets),
        outcome=one.outcome or None,
        properties=table_to_json(properties),
        headers=None if headers is None else table_to_json(headers),
        body_bytes=len(one.body),
        body=_body(one.body) if with_bodies else None,
    )
