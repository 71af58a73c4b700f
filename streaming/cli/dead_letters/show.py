"""`dlx dead-letters show`: the life of one message, from its publish to where it is now."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.times import read_iso
from streaming.cli.listing.view import OutputOptions
from streaming.cli.options import ConfigFile, TablesLocation
from streaming.cli.output import compact, print_in_colour, print_json, printable, readable
from streaming.cli.tables.history import AsOf, AsUser, open_as_of

if TYPE_CHECKING:
    from streaming.queries.life.copies import CopyLife
    from streaming.queries.life.scenario import Replay
    from streaming.queries.message_history import MessageHistory

Line = tuple[str, str]
"""A text and its tone; `output.COLOURS` lists the tones."""

BodyForm = Literal["auto", "text", "json", "hex"]

_HEX_BYTES: Final = 16

_EVENT_ROWS: Final = Listing(
    tuple(
        Column(name)
        for name in (
            *("at", "vhost", "lane", "seq", "kind", "copy_id", "parent_copy_id", "queue"),
            *("reason", "number", "position", "expires_at", "exchange", "routing_key"),
            *("user", "channel", "detail", "batch_id"),
        )
    )
)
_EVENTS: Final = {
    "enqueued": "{copy} enters {queue}{origin}",
    "delivered": "{copy} of {queue} is delivered to {channel}{again}",
    "consumed": "{copy} of {queue} is delivered to {channel} with automatic ack",
    "acked": "{copy} of {queue} is acked by {channel}",
    "requeued": "{copy} returns to {queue}{cause}",
    "died": "{copy} of {queue} dies: {reason}{why}{cause}{sent}",
    "rerouted": "{copy} of {queue} is rerouted: {reason}{cause}{sent}",
    "redriven": "{copy} of {queue} is redriven to {targets} by {redrive}{edit}",
    "republished": "{copy}, last in {queue}, is published again to {targets} by {redrive}{edit}",
    "edited": "an editor{user} stores it as the new version of a letter",
    "discarded": "{copy} of {queue} is discarded by {redrive}",
    "held": "{copy} of {queue} died: {reason}{why}{cause}; kept until its targets take it",
    "purged": "{copy} is purged from {queue}",
    "deleted": "{copy} is deleted with its queue {queue}",
    "refused": "{queue} is full and refuses it",
    "unroutable": "unroutable: no queue takes it",
    "returned": "no queue takes it: returned to its publisher ({code})",
    "publish_error": "refused: {error}",
    "void": "has no effect: its channel, or the epoch of its front, had ended",
}
_TONES: Final = {
    **dict.fromkeys(("died", "deleted", "purged", "refused", "unroutable", "publish_error"), "bad"),
    **dict.fromkeys(("acked", "consumed"), "good"),
    **dict.fromkeys(("requeued", "held", "rerouted", "returned"), "moved"),
    **dict.fromkeys(("redriven", "republished"), "moved"),
    "discarded": "bad",
}


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="topic/partition/offset, as `list` prints it or with the topic's name, or the "
            "property message_id.",
        ),
    ],
    *,
    body: Annotated[
        BodyForm,
        typer.Option("--body", help="How to print the body. auto: JSON or text, else hex."),
    ] = "auto",
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario",
            metavar="FILE",
            help="Write the life as a scenario, which `dlx simulate` replays; - for stdout.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --scenario: replace an existing file.")
    ] = False,
    as_of: AsOf = None,
    as_user: AsUser = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Show the whole life of a message: every hop, who held it, its copies, its body.

    Below a death stands what x-death said after it. `-o json` has the copies as a list, and `-o
    csv` prints only the events. `dlx dead-letters redrive --id ID` sends the message back.

    Exit status: 1 if the scenario of --scenario does not replay to the same deaths.
    """
    from streaming.queries.message_history import history_of

    with open_as_of(tables, config, as_of, as_user) as opened:
        history = history_of(opened, name)
        if scenario is not None:
            from streaming.queries.duckdb_tables import QueryError
            from streaming.queries.life.scenario import scenario_of

            if history.hidden is not None:
                raise QueryError(f"--scenario: {history.hidden}: the message cannot become one")
            return _write_scenario(scenario_of(opened, history), scenario, replace=force)
        _print(history, body, view)
    return EXIT_OK


def _print(history: "MessageHistory", body: BodyForm, view: OutputOptions) -> None:
    if view.output == "json":
        from msgspec import to_builtins

        from streaming.queries.life.copies import copies_of

        print_json({**to_builtins(history, str_keys=True), "copies": copies_of(history)})
    elif view.output == "csv":
        print_listing(_EVENT_ROWS, history.events, view)
    else:
        print_in_colour(_story(history, body))


def _write_scenario(replay: "Replay", file: Path, *, replace: bool) -> int:
    import sys

    from streaming.queries.duckdb_tables import QueryError

    text = "\n".join(_pretty(replay.document))
    if str(file) == "-":
        print(text)
    else:
        try:
            with file.open("w" if replace else "x", encoding="utf-8") as opened:
                opened.write(f"{text}\n")
        except FileExistsError:
            what = "exists; give another name, or --force to replace it"
            raise QueryError(f"{file}: {what}") from None
        except OSError as error:
            raise QueryError(f"{file}: cannot be written: {error.strerror}") from None
    for note in replay.notes:
        print(printable(note), file=sys.stderr)
    compat = "" if replay.compat == "4.0" else f" --compat {replay.compat}"
    if replay.is_same:
        deaths = f"{len(replay.recorded)} death{'s' if len(replay.recorded) != 1 else ''}"
        said = f"replays to the same {deaths}: dlx simulate{compat} {file}"
        print(printable(said), file=sys.stderr)
        return EXIT_OK
    for title, found in (("recorded", replay.recorded), ("replayed", replay.played)):
        deaths = ", ".join(f"{reason} in {queue!r}" for queue, reason, _targets in found)
        print(printable(f"{title}: {deaths or 'no death'}"), file=sys.stderr)
    print("the scenario does not replay to the same deaths: edit its steps", file=sys.stderr)
    return EXIT_FINDINGS


def _story(history: "MessageHistory", form: BodyForm) -> Iterator[Line]:
    """The history from the publish to where the copies are now, as lines."""
    yield from _arrival(history, form)
    yield "", "plain"
    if history.forgotten.events_at is not None:
        said = f"events up to {history.forgotten.events_at} were removed by tables.retention"
        yield f"{said}; some of its own may be missing", "quiet"
    for copy in history.opening:
        then = f"copy {copy['copy_id']} is {copy['state']} in queue {copy['queue']!r}"
        yield (
            f"{copy['snapshot_at']}  {then}, by the snapshot after batch {copy['snapshot']}",
            "plain",
        )
    if not history.events and not history.opening:
        yield "nothing has happened to it yet", "quiet"
        return
    from streaming.queries.life.copies import copies_of

    copies = copies_of(history)
    why = {(copy.copy_id, copy.left_at): copy.why for copy in copies}
    depth = _generations(history.events)
    for event in history.events:
        indent = "    " * depth.get(event["copy_id"], 0)
        at = f"{event['at']}  #{event['seq']}"
        said = _event(event, history, why.get((event["copy_id"], event["at"])))
        yield f"{at}  {indent}{said}", _TONES.get(event["kind"], "plain")
        death = history.deaths.get(event["seq"])
        if death is not None and death["x_death"]:
            yield f"{' ' * len(at)}  {indent}  x-death: {_x_death(death['x_death'])}", "quiet"
    yield "", "plain"
    yield from _tree(copies, history)
    yield "", "plain"
    yield from _end(history)


def _arrival(history: "MessageHistory", form: BodyForm) -> Iterator[Line]:
    yield f"message {history.message_id}", "title"
    if history.version_of is not None:
        yield f"  the new version of letter {history.version_of}, which was edited", "head"
    message = history.message
    title = ""
    if message is not None:
        for line in _published(message):
            yield f"  {line}", "plain"
    elif history.forgotten.body != "removed":
        yield "  the table messages has no row for it; see `dlx balance`", "bad"
        return
    else:
        at = history.forgotten.body_at
        yield f"  tables.retention removed its body and headers from messages at {at}", "bad"
        stored = [one for one in history.deaths.values() if one["body"] is not None]
        if not stored:
            return
        message, title = stored[-1], " of its dead letter"
    if history.hidden is not None:
        yield f"  {history.hidden}: its body and headers are hidden", "bad"
        return
    yield f"  body{title}, {message['body_bytes']} bytes:", "plain"
    if message["body"] is None and message["body_bytes"]:
        at = history.forgotten.body_at
        when = f" at {at}" if at else "; the events of kind erased say when"
        yield f"    `dlx tables erase` erased it{when}", "bad"
        return
    for line in _body(message, form):
        yield f"    {line}", "plain"


def _published(message: dict[str, Any]) -> Iterator[str]:
    origin = message["origin"]
    on_channel = f" on channel {message['channel']}" if message["channel"] else ""
    yield (
        f"published to exchange {message['exchange']!r} with key {message['routing_key']!r} in "
        f"vhost {message['vhost']!r} by {message['user']}{on_channel}"
    )
    yield (
        f"from topic {origin.get('topic')}, partition {message['partition']}, offset "
        f"{message['offset']}, at {origin.get('timestamp')}, in batch {message['batch_id']}"
    )
    flags = [flag for flag in ("mandatory", "immediate", "confirm") if message[flag]]
    if flags:
        yield f"flags: {', '.join(flags)}"
    for title in ("properties", "headers"):
        if message[title]:
            yield f"{title}: {compact(message[title])}"
    for header in message["kafka_headers"]:
        yield f"Kafka header {header['key']}: {readable(header['value'])}"


def _body(message: dict[str, Any], form: BodyForm) -> list[str]:
    """The body as lines."""
    content = base64.b64decode(message["body"]["$bytes"]) if _is_bytes(message) else None
    text = message["body"]
    if form == "hex" or (form == "auto" and content is not None):
        return _hex_dump((text or "").encode() if content is None else content)
    if form in {"auto", "json"} and content is None:
        try:
            document = json.loads(text or "")
        except ValueError:
            document = None
        if isinstance(document, dict | list):
            return [printable(line) for line in _pretty(document)]
        if form == "json":
            return ["(is not JSON)", *readable(text).splitlines()]
    return readable(text if content is None else content.decode(errors="replace")).splitlines() or [
        ""
    ]


def _is_bytes(message: dict[str, Any]) -> bool:
    return isinstance(message["body"], dict)


def _pretty(document: Any) -> list[str]:
    return json.dumps(document, indent=2, ensure_ascii=False).splitlines()


def _hex_dump(content: bytes) -> list[str]:
    """Lines of 16 bytes: offset, hex and ASCII."""
    lines = []
    for start in range(0, len(content), _HEX_BYTES):
        part = content[start : start + _HEX_BYTES]
        characters = "".join(chr(one) if 32 <= one < 127 else "." for one in part)  # noqa: PLR2004 - ASCII
        lines.append(f"{start:08x}  {part.hex(' '):{_HEX_BYTES * 3 - 1}}  {characters}")
    return lines or [""]


def _generations(events: list[dict[str, Any]]) -> dict[int | None, int]:
    """Copy -> how many deaths precede it."""
    depth: dict[int | None, int] = {}
    for event in events:
        copy_id, parent = event["copy_id"], event["parent_copy_id"]
        if copy_id is not None and copy_id not in depth:
            depth[copy_id] = 0 if parent is None else depth.get(parent, 0) + 1
    return depth


def _event(event: dict[str, Any], history: "MessageHistory", why: str | None) -> str:
    parent, number, kind = event["parent_copy_id"], event["number"], event["kind"]
    user = f" of {event['user']}" if event["user"] else ""
    is_death = kind in {"died", "rerouted"}
    return _EVENTS.get(kind, f"{kind} {{copy}} of {{queue}}").format(
        copy=f"copy {event['copy_id']}",
        queue=f"queue {event['queue']!r}",
        channel=f"channel {event['channel']!r}{user}",
        origin=f", from copy {parent}" if parent else "",
        again=f", requeued {number} times before" if number else "",
        reason=event["reason"],
        cause=_cause(event),
        why=f" ({why})" if why else "",
        sent=_sent(event["seq"], history) if is_death else "",
        code=number,
        targets=", ".join((event["detail"] or {}).get("targets", ())),
        redrive=(event["detail"] or {}).get("redrive", ""),
        user=f", {event['user']}," if event["user"] else "",
        edit=_edit(event),
        error=(event["detail"] or {}).get("text", ""),
    )


def _cause(event: dict[str, Any]) -> str:
    """What the consumer said that gave it up, on one line."""
    cause = (event["detail"] or {}).get("cause")
    return f", {json.dumps(cause, ensure_ascii=False)}" if cause else ""


def _edit(event: dict[str, Any]) -> str:
    """The new version of an edited letter."""
    edit = (event["detail"] or {}).get("edit")
    if edit is None:
        return ""
    message = "/".join(map(str, edit["message"]))
    return f", edited ({edit['original'][:12]} -> {edit['version'][:12]}): now message {message}"


def _sent(seq: int, history: "MessageHistory") -> str:
    """Where a dead letter was sent, and why it was lost."""
    from streaming.queries.ends import end_of_letter
    from streaming.queries.message_history import LOSSES

    death = history.deaths.get(seq)
    if death is None:
        return "; dead_letters has no row for it"
    outcome = death["outcome"]
    end = end_of_letter(outcome, death["reason"]) or "lost"
    loss = f"; {end}: {LOSSES.get(outcome, outcome)}" if outcome else ""
    if death["dead_letter_exchange"] is None:
        return loss
    targets = ", ".join(repr(target) for target in death["targets"])
    return (
        f"; sent to exchange {death['dead_letter_exchange']!r} with key "
        f"{death['dead_letter_routing_key']!r}{', to ' if targets else ''}{targets}{loss}"
    )


def _x_death(deaths: list[dict[str, Any]]) -> str:
    """The death records in short, the latest first."""
    return ", ".join(f"{one['queue']} {one['reason']} {one['count']}" for one in deaths)


def _tree(copies: list["CopyLife"], history: "MessageHistory") -> Iterator[Line]:
    """The copies as a tree: where each was, for how long, who held it, and how it ended."""
    yield "copies:", "head"
    for copy in copies:
        indent = "    " * copy.depth
        yield f"  {indent}{copy.copy_id}  {copy.queue}, {_lasted(copy, history)}", "plain"


def _lasted(copy: "CopyLife", history: "MessageHistory") -> str:
    held = [
        f"held by {hold.user or 'the operator'} on {hold.channel} {_span(hold.since, hold.until)}"
        for hold in copy.holds
    ]
    if copy.end is None:
        state = history.now.get(copy.copy_id, "gone")
        end = f"{state} since {copy.enqueued_at}"
    else:
        reason = f": {copy.reason}" if copy.reason else ""
        after = f" after {_span(copy.enqueued_at, copy.left_at)}" if copy.enqueued_at else ""
        end = f"{copy.end}{reason}{after}"
    return "; ".join([end, *held])


def _span(since: str, until: str | None) -> str:
    if until is None:
        return f"since {since}"
    return f"{(read_iso(until) - read_iso(since)).total_seconds():g}s"


def _end(history: "MessageHistory") -> Iterator[Line]:
    rows = [*history.opening, *history.events]
    places = {row["copy_id"]: row["queue"] for row in rows if row["copy_id"]}
    for copy_id, state in sorted(history.now.items()):
        yield f"now: copy {copy_id} is {state} in queue {places[copy_id]!r}", "head"
    if not history.now:
        yield "now: no queue has a copy of it", "head"
    if history.deaths:
        yield "x-death after its last death, latest first:", "head"
        for death in history.deaths[max(history.deaths)]["x_death"]:
            times = f"{death['count']} time{'s' if death['count'] != 1 else ''}"
            keys = ", ".join(repr(key) for key in death["routing_keys"])
            place = f"  {death['reason']} in queue {death['queue']!r}, {times}, first at"
            origin = f"it came from exchange {death['exchange']!r} with keys {keys}"
            yield f"{place} {death['time']}; {origin}", "plain"
