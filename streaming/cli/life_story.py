"""The life of a message as lines to read."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from streaming.cli.output import compact, readable

if TYPE_CHECKING:
    from streaming.queries.message_history import MessageHistory

Line = tuple[str, str]
"""A text and its tone, as `colours.py` has them."""

_LOSSES: Final = {
    "no_exchange": "the dead-letter exchange is missing, or there is none",
    "no_route": "no queue is bound for it",
    "cycle": "it would go round in a circle",
    "refused": "its targets are full",
    "cascade_limit": "it has too many descendants",
    "rerouted_before": "it was rerouted before",
}
_TONES: Final = {
    "died": "bad",
    "deleted": "bad",
    "purged": "bad",
    "refused": "bad",
    "unroutable": "bad",
    "publish_error": "bad",
    "acked": "good",
    "consumed": "good",
    "requeued": "moved",
    "held": "moved",
    "rerouted": "moved",
    "returned": "moved",
}


def tell(life: "MessageHistory") -> Iterator[Line]:
    """The whole story, from the publish to where its copies are now."""
    yield from _arrival(life)
    yield "", "plain"
    if not life.events:
        yield "nothing has happened to it yet", "quiet"
        return
    depth = _generations(life.events)
    for event in life.events:
        indent = "    " * depth.get(event["copy_id"], 0)
        at = f"{event['at']}  #{event['seq']}"
        yield f"{at}  {indent}{_what(event, life)}", _TONES.get(event["kind"], "plain")
    yield "", "plain"
    yield from _end(life)


def _arrival(life: "MessageHistory") -> Iterator[Line]:
    yield f"message {life.message_id}", "title"
    message = life.message
    if message is None:
        yield "  the table messages has no row of it; see `dlx balance`", "bad"
        return
    origin = message["origin"]
    by = f"by {message['user']}" + (
        f" on channel {message['channel']}" if message["channel"] else ""
    )
    yield (
        (
            f"  published to exchange {message['exchange']!r} with key {message['routing_key']!r} "
            f"in vhost {message['vhost']!r} {by}"
        ),
        "plain",
    )
    yield (
        (
            f"  from topic {origin.get('topic')}, partition {message['partition']}, offset "
            f"{message['offset']}, at {origin.get('timestamp')}, in batch {message['batch_id']}"
        ),
        "plain",
    )
    asked = [flag for flag in ("mandatory", "immediate", "confirm") if message[flag]]
    if asked:
        yield f"  flags: {', '.join(asked)}", "plain"
    for title in ("properties", "headers"):
        if message[title]:
            yield f"  {title}: {compact(message[title])}", "plain"
    for header in message["kafka_headers"]:
        yield f"  Kafka header {header['key']}: {readable(header['value'])}", "plain"
    yield f"  body, {message['body_bytes']} bytes:", "plain"
    for line in readable(message["body"]).splitlines() or [""]:
        yield f"    {line}", "plain"


def _generations(events: list[dict[str, Any]]) -> dict[int | None, int]:
    """How many deaths lie behind each copy."""
    depth: dict[int | None, int] = {}
    for event in events:
        copy_id, parent = event["copy_id"], event["parent_copy_id"]
        if copy_id is not None and copy_id not in depth:
            depth[copy_id] = 0 if parent is None else depth.get(parent, 0) + 1
    return depth


def _what(event: dict[str, Any], life: "MessageHistory") -> str:
    queue = f"queue {event['queue']!r}"
    copy = f"copy {event['copy_id']}"
    holder = _holder(event)
    match event["kind"]:
        case "enqueued":
            parent = event["parent_copy_id"]
            return f"{copy} enters {queue}" + (f", from copy {parent}" if parent else "")
        case "delivered":
            again = f", returned {event['number']} times before" if event["number"] else ""
            return f"{copy} of {queue} is delivered to {holder}{again}"
        case "consumed":
            return f"{copy} of {queue} is taken by {holder}, acked by that"
        case "acked":
            return f"{copy} of {queue} is acked by {holder}"
        case "requeued":
            return f"{copy} goes back to {queue}"
        case "died" | "rerouted" as kind:
            verb = "dies" if kind == "died" else "is rerouted"
            return f"{copy} of {queue} {verb}: {event['reason']}{_sent(event['seq'], life)}"
        case "held":
            return f"{copy} of {queue} died ({event['reason']}), kept until its targets take it"
        case "purged":
            return f"{copy} is purged from {queue}"
        case "deleted":
            return f"{copy} is lost: {queue} is deleted"
        case "refused":
            return f"{queue} is full and refuses it"
        case "unroutable":
            return "no queue takes it: dropped"
        case "returned":
            return f"no queue takes it: returned to its publisher ({event['number']})"
        case "publish_error":
            return f"refused: {(event['detail'] or {}).get('text', '')}"
        case kind:
            return f"{kind} {copy} of {queue}"


def _holder(event: dict[str, Any]) -> str:
    user = event["user"]
    return f"channel {event['channel']!r}" + (f" of {user}" if user else "")


def _sent(seq: int, life: "MessageHistory") -> str:
    """Where a dead letter went."""
    death = life.deaths.get(seq)
    if death is None:
        return "; dead_letters has no row of it"
    outcome = death["outcome"]
    why = f"; lost: {_LOSSES.get(outcome, outcome)}" if outcome else ""
    if death["dead_letter_exchange"] is None:
        return why
    way = (
        f"; sent to exchange {death['dead_letter_exchange']!r} with key "
        f"{death['dead_letter_routing_key']!r}"
    )
    targets = ", ".join(repr(target) for target in death["targets"])
    return f"{way}, to {targets}{why}" if targets else f"{way}{why}"


def _end(life: "MessageHistory") -> Iterator[Line]:
    places = {event["copy_id"]: event["queue"] for event in life.events if event["copy_id"]}
    for copy_id, state in sorted(life.now.items()):
        yield f"now: copy {copy_id} is {state} in queue {places[copy_id]!r}", "head"
    if not life.now:
        yield "now: no copy of it is in any queue", "head"
    if life.deaths:
        last = life.deaths[max(life.deaths)]
        yield "x-death after its last death, most recent first:", "head"
        for death in last["x_death"]:
            times = f"{death['count']} time{'s' if death['count'] != 1 else ''}"
            yield (
                (
                    f"  {death['reason']} in queue {death['queue']!r}, {times}, first at "
                    f"{death['time']}; it came from exchange {death['exchange']!r} with keys "
                    f"{', '.join(repr(key) for key in death['routing_keys'])}"
                ),
                "plain",
            )
