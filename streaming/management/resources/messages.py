"""Publishing and getting single messages over HTTP."""

import base64
from typing import Any, Final

from streaming.amqp.errors import ACCESS_REFUSED, AmqpError
from streaming.amqp.properties import FIELDS, read_properties, see, with_changes, write_properties
from streaming.amqp.publications import publication_seen, stored_seen
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.commands import SettleOutcome
from streaming.broker.dead_letters.x_death import delivered_headers
from streaming.broker.outbound import DeliveryOut
from streaming.management.answers import failed
from streaming.management.bodies import Members, from_base64
from streaming.management.errors import ApiError, bad_request, not_authorised, not_found
from streaming.management.formats import plain
from streaming.management.routing import Asked
from streaming.management.sessions import REJECTED, Session
from topology.declarations import MAX_NAME_BYTES, Queue
from topology.refusals import Refusal

MAX_GOT_BYTES: Final = 64 * 1024 * 1024
"""A get ends when its messages have this size together."""

_ALIVENESS: Final = "aliveness-test"
"""The queue of that test."""

_ACK_MODES: Final[dict[str, SettleOutcome | None]] = {
    "ack_requeue_true": "requeue",
    "reject_requeue_true": "requeue",
    "ack_requeue_false": None,
    "reject_requeue_false": "reject",
}
_INTEGERS: Final = {"delivery_mode": 8, "priority": 8, "timestamp": 64}
"""How many bits they have. As in RabbitMQ, higher bits are cut off."""


async def publish(asked: Asked) -> Any:
    """Publish a message to the exchange in the path."""
    vhost, exchange = asked.vhost, asked.name_of("exchange")
    if exchange not in vhost.shard.vhost.router.exchanges:
        raise not_found("exchange_not_found")
    members = asked.members()
    members.need("routing_key", "properties", "payload", "payload_encoding")
    body = _payload(members, vhost.max_body_bytes)
    properties = write_properties(_properties(members))
    if len(properties) > vhost.max_property_bytes:
        raise bad_request(
            f"406 PRECONDITION_FAILED - properties of {len(properties)} bytes are larger than "
            f"{vhost.max_property_bytes}"
        )
    seen = see(properties)
    routing_key = members.text("routing_key")
    if len(routing_key.encode()) > MAX_NAME_BYTES:
        raise bad_request(["too_long", "routing_key"])
    is_own = seen.user_id == asked.user.name or asked.user.impersonates
    user_id = None if is_own else seen.user_id
    publication = publication_seen(exchange, routing_key, seen, user_id)
    stored = stored_seen(properties, body, seen)
    _refuse_without_permissions(asked)
    session = await asked.front.open_session(vhost, asked.user.name)
    try:
        routed = await session.publish(publication, stored)
    finally:
        await session.close()
    if isinstance(routed, Refusal):
        raise bad_request(f"{routed.code} {routed.text}")
    if routed == REJECTED:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return {"routed": routed}


def _refuse_without_permissions(asked: Asked) -> None:
    """401 if the user, who may have the tag administrator, may do nothing in the vhost."""
    vhost = asked.vhost
    is_implied = asked.user.name in asked.front.implied_in(vhost)
    needs_some = vhost.shard.vhost.enforce_permissions and not is_implied
    if needs_some and not asked.may_log_in(vhost):
        raise not_authorised("Access refused.")


def _payload(members: Members, max_bytes: int) -> bytes:
    payload = members.get("payload")
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    encoding = members.get("payload_encoding")
    if encoding == "base64":
        body = from_base64(payload)
    elif encoding == "string":
        body = payload.encode("utf-8", "surrogateescape")
    else:
        raise bad_request(["unsupported_encoding", encoding])
    if len(body) > max_bytes:
        raise bad_request(
            f"406 PRECONDITION_FAILED - message size {len(body)} is larger than configured max "
            f"size {max_bytes}"
        )
    return body


def _properties(members: Members) -> dict[str, Any]:
    """The properties that AMQP knows; others are left out, as RabbitMQ does."""
    given = members.get("properties")
    if not isinstance(given, dict):
        raise bad_request("properties must be an object")
    sent = Members(given)
    found: dict[str, Any] = {}
    for _flag, name, _form in FIELDS:
        if name not in given:
            continue
        value = given[name]
        if name == "headers" and value is not None:
            found[name] = sent.table(name)
        elif name in _INTEGERS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise bad_request(["not_int", name])
            found[name] = value % (1 << _INTEGERS[name])
        elif not isinstance(value, str):
            raise bad_request(["not_string", name])
        elif len(value.encode("utf-8", "surrogatepass")) > 255:  # noqa: PLR2004 - its size is a byte
            raise bad_request(["too_long", name])
        else:
            found[name] = value
    return found


async def aliveness(asked: Asked) -> Any:
    """Declare a queue in the vhost of the path, publish a message to it and get it.

    The user needs the permissions for that. As in RabbitMQ, the queue stays.
    """
    vhost = asked.vhost
    _refuse_without_permissions(asked)
    queue = Queue(_ALIVENESS, durable=False)
    properties = write_properties({})
    seen = see(properties)
    publication = publication_seen("", _ALIVENESS, seen, None)
    session = await asked.front.open_session(vhost, asked.user.name)
    try:
        answer = await session.do(
            lambda channel: commands.DeclareQueue(queue=queue, channel=channel)
        )
        _expect(answer.refusal)
        routed = await session.publish(publication, stored_seen(properties, b"test_message", seen))
        _expect(routed if isinstance(routed, Refusal) else None)
        answer = await session.do(
            lambda channel: commands.Get(queue=_ALIVENESS, auto_ack=True, channel=channel)
        )
        _expect(answer.refusal)
    finally:
        await session.close()
    has_message = bool(answer.result.get("delivered"))
    vhost.count_get("get_no_ack" if has_message else "get_empty", _ALIVENESS, "")
    if not has_message:
        return failed(f"{_ALIVENESS} queue is empty")
    return {"status": "ok"}


def _expect(refusal: Refusal | None) -> None:
    """Fail as a client whose channel was closed, if the broker refused something."""
    if refusal is not None:
        raise _closed(refusal)


async def get(asked: Asked) -> Any:
    """Get messages from the queue in the path; the mode says whether they return to it."""
    vhost, name = asked.vhost, asked.names["queue"]
    if name not in vhost.shard.vhost.queues:
        raise not_found("queue_not_found")
    members = asked.members()
    members.need("ackmode", "count", "encoding")
    _refuse_without_permissions(asked)
    mode = members.get("ackmode")
    if not isinstance(mode, str) or mode not in _ACK_MODES:
        raise bad_request(["unsupported_ackmode", mode])
    encoding = members.get("encoding")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = members.whole("truncate") if "truncate" in members.document else None
    outcome = _ACK_MODES[mode]
    session = await asked.front.open_session(vhost, asked.user.name)
    try:
        found = await _get_all(
            asked, session, members.whole("count"), (encoding, truncate), auto_ack=outcome is None
        )
        if outcome is not None and session.deliveries:
            await _settle(session, outcome)
    finally:
        await session.close()
    return found


async def _get_all(
    asked: Asked, session: Session, count: int, form: tuple[str, int | None], *, auto_ack: bool
) -> list[dict[str, Any]]:
    """Get so many messages, or all if `count` is negative, as in RabbitMQ."""
    vhost, name = asked.vhost, asked.names["queue"]
    found: list[dict[str, Any]] = []
    size = 0
    while len(found) != max(count, -1) and size < MAX_GOT_BYTES:
        answer = await session.do(
            lambda channel: commands.Get(queue=name, auto_ack=auto_ack, channel=channel)
        )
        _expect(answer.refusal)
        if not answer.result.get("delivered"):
            vhost.count_get("get_empty", name, "")
            break
        vhost.count_get("get_no_ack" if auto_ack else "get", name, "")
        out, stored = session.deliveries[-1]
        size += len(stored.body)
        found.append(_message(out, stored, vhost.ready_in(name), *form))
    return found


def _closed(refusal: Refusal) -> ApiError:
    """A refusal as RabbitMQ's client says it, which knows that its channel was closed."""
    if refusal.code == ACCESS_REFUSED:
        return not_authorised(refusal.text)
    return bad_request(f"{refusal.code} {refusal.text}")


async def _settle(session: Session, outcome: SettleOutcome) -> None:
    tag = session.deliveries[-1][0].tag
    await session.do(
        lambda channel: commands.Settle(
            tag=tag, multiple=True, outcome=outcome, channel=channel, reply_id="settled"
        )
    )


def _message(
    out: DeliveryOut, stored: Stored, ready: int, encoding: str, truncate: int | None
) -> dict[str, Any]:
    envelope = out.copy.envelope
    headers = delivered_headers(envelope, stored.headers)
    try:
        properties = read_properties(
            with_changes(stored.properties, headers, stored.headers, envelope.expiration)
        )
    except AmqpError as error:
        raise ApiError(500, "internal_server_error", error.text) from None
    body = stored.body if truncate is None else stored.body[: max(0, truncate)]
    payload, payload_encoding = _written(body, encoding)
    return {
        "payload_bytes": len(stored.body),
        "redelivered": out.delivery_count > 0,
        "exchange": envelope.exchange,
        "routing_key": envelope.routing_keys[0],
        "message_count": ready,
        "properties": plain(properties) or [],
        "payload": payload,
        "payload_encoding": payload_encoding,
    }


def _written(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode("ascii"), "base64"
