"""Make the sealed plan of a redrive, and the forecast of what it would do now."""

from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec

from streaming.broker.commands import Redrive
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, Target
from streaming.broker.redrives.letters import is_expiration
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.sealed_plan import SealedPlan
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.message_attributes import MessageId
from streaming.queries.redrives.candidates import (
    LetterPublication,
    Which,
    candidates,
    count_candidates,
    publications,
    stored_letter,
)
from streaming.queries.redrives.edits import EditWish, LetterEdit, contents_of, diff_of
from streaming.queries.redrives.forecast import COPY, DryRun, Expected, Forecast
from streaming.queries.redrives.risks import Reached, Risk, risks_of
from streaming.queries.vhosts.declared import Declared, declared
from streaming.queries.vhosts.declared_rights import reading_as
from topology.declarations import too_long
from topology.refusals import access_refused
from topology.sentences import say
from topology.vhost import Vhost

Destination = Literal["died", "first", "original", "queue", "exchange"]


class RedriveWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants to be planned.

    Attributes:
        wanted: which dead letters.
        gone: the letters that are in no queue any more, instead of those that are.
        destination: `died`: the queue where it died; `first`: the one where it first died;
            `original`: the exchange and key of its publish; `queue` and `exchange`: those of that
            name.
        name, routing_key: of the destination.
        every_copy: send each copy of a message to its target; otherwise one copy goes to each.
        edit: what is to become of the content of the letters; None: nothing.
        key: tells which letters have a later message of the same key: `routing_key` or
            `header:NAME`.
        user: refuse what this user may not read or edit; None: the operator.
        only_readable: leave letters out that the user may not read, instead.
        administrators, editors: the users who are.
        most: refuse to plan more letters than this.
    """

    wanted: DeadLetterFilter
    gone: bool = False
    destination: Destination = "died"
    name: str = ""
    routing_key: str | None = None
    options: RedriveOptions = RedriveOptions()
    key: str = "routing_key"
    user: str | None = None
    only_readable: bool = False
    administrators: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    every_copy: bool = False
    edit: EditWish | None = None
    most: int = 1_000_000


class ForecastGroup(msgspec.Struct):
    """Letters that are alike: where they died, why, where they are, and where they would go.

    Attributes:
        goes_to: queues; empty: nowhere.
        forecast: expectation -> how many of the letters; see FORECASTS.
    """

    died_in: str
    reason: str
    now_in: str
    goes_to: str
    letters: int = 0
    forecast: dict[str, int] = {}


class RedrivePlan(NamedTuple):
    """A sealed plan with its forecast.

    Attributes:
        unacked: letters of the filter that a consumer holds; they are not in the plan.
        copies: further copies of messages that the plan sends, or that were sent; they stay.
        unreadable: letters left out because the user may not read the queues they are in.
        edits: the letters that the plan edits.
        risks: target queues in which letters may die again.
    """

    sealed: SealedPlan
    groups: list[ForecastGroup]
    unacked: int
    copies: int = 0
    edits: tuple[LetterEdit, ...] = ()
    unreadable: int = 0
    risks: tuple[Risk, ...] = ()


def plan_redrive(
    tables: Tables, wish: RedriveWish, declarations: Mapping[str, Declared] | None = None
) -> RedrivePlan:
    """Plan a redrive; nothing moves.

    Args:
        declarations: what is declared, by vhost, if that is known.

    Raises:
        QueryError: the filter, the destination or the edit is wrong, the letters are in several
            vhosts, or the user may not read their queues or edit them.
    """
    with reading_as(tables, wish.user, wish.administrators):
        return _planned(tables, wish, declarations)


def _planned(
    tables: Tables, wish: RedriveWish, declarations: Mapping[str, Declared] | None
) -> RedrivePlan:
    for given in (wish.name, wish.routing_key or ""):
        if too_long(given):
            raise QueryError(f"destination {given[:20]!r}...: {too_long(given)}")
    rows = _rows(tables, wish)
    if len(rows) > wish.most:
        what = say(
            "%(count)s letters match, more than %(most)s: narrow the filter",
            count=str(len(rows)),
            most=str(wish.most),
        )
        raise QueryError(what)
    vhosts = sorted({row["vhost"] for row in rows})
    if len(vhosts) > 1:
        names = ", ".join(map(repr, vhosts))
        raise QueryError(
            say("the letters are in the vhosts %(names)s: choose one vhost", names=names)
        )
    name = vhosts[0] if vhosts else wish.wanted.vhost or "/"
    known = (declarations or declared(tables)) if vhosts else {}
    vhost = known[name].vhost() if vhosts else Vhost("4.0")
    matching = len(rows)
    if wish.only_readable:
        rows = _readable(vhost, name, rows, wish)
    _check_user(vhost, name, rows, wish)
    ready = [row for row in rows if row["state"] != "unacked"]
    unacked = len(rows) - len(ready)
    arrived = publications(tables, ready) if wish.destination == "original" and ready else {}
    letters = [_letter(row, wish, arrived) for row in ready]
    ready, letters, copies = _once(ready, letters, wish)
    letters, edited, edits = _edited(tables, ready, letters, wish)
    sealed = SealedPlan(
        vhost=name,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        predicate=_predicate(wish),
        tables_id=str(tables.table("events").metadata().id),
        versions={each: tables.table(each).version() for each in ("events", "dead_letters")},
        options=wish.options,
        letters=tuple(letters),
        edited=edited,
    ).sealed()
    groups, reached = _groups(tables, vhost, wish, sealed, ready, copies)
    risks: list[Risk] = []
    if wish.options.action == "redrive":
        risks = risks_of(tables, name, known, reached)
    unreadable = matching - len(rows)
    return RedrivePlan(sealed, groups, unacked, len(copies), tuple(edits), unreadable, tuple(risks))


def count_letters(tables: Tables, wish: RedriveWish, declarations: Mapping[str, Declared]) -> int:
    """How many letters a plan would have, without making it; 0 if it would be refused as too large.

    Raises:
        QueryError: the filter is wrong.
    """
    once = None
    if wish.options.action == "redrive" and not wish.every_copy:
        once = "died_in" if wish.destination == "died" else "NULL"
    with reading_as(tables, wish.user, wish.administrators):
        found = count_candidates(tables, wish.wanted, _which(wish), once=once)
        if len(found.queues) != 1:
            return 0
        [(name, queues)] = found.queues.items()
        if sum(queues.values()) > wish.most:
            return 0
        rows: list[Row] = [{"now_in": queue} for queue in queues]
        if wish.only_readable:
            rows = _readable(declarations[name].vhost(), name, rows, wish)
        return found.moving([row["now_in"] for row in rows])


def content_of_letter(tables: Tables, wish: RedriveWish) -> LetterContent:
    """The content of the only letter of a wish, for a person to edit.

    Raises:
        QueryError: as `plan_redrive`, or there is not one letter.
    """
    found = plan_redrive(tables, msgspec.structs.replace(wish, edit=None))
    with reading_as(tables, wish.user, wish.administrators):
        rows = _rows(tables, wish)
    ready = [row for row in rows if row["state"] != "unacked"]
    letters = found.sealed.letters
    if len(letters) != 1:
        raise QueryError(
            f"one letter can be edited, and {len(letters)} match: choose one by its id"
        )
    chosen = [row for row in ready if row["copy_id"] == letters[0].copy_id]
    [(content, _same)] = contents_of(tables, chosen, EditWish())
    return content


def _rows(tables: Tables, wish: RedriveWish) -> list[Row]:
    return candidates(tables, wish.wanted, _which(wish))


def _which(wish: RedriveWish) -> Which:
    if wish.options.action == "restore":
        return "discarded"
    return "gone" if wish.gone else "resting"


def _once(
    rows: list[Row], letters: list[Letter], wish: RedriveWish
) -> tuple[list[Row], list[Letter], list[Row]]:
    """Choose one copy of each message for each target; return the others apart.

    A death with several dead-letter queues makes as many copies of one message.
    """
    if wish.every_copy or wish.options.action != "redrive":
        return rows, letters, []
    chosen: list[tuple[Row, Letter]] = []
    copies: list[Row] = []
    seen = set()
    for row, letter in zip(rows, letters, strict=True):
        target = letter.target
        assert target is not None, "only a discard has no target"
        place = (target.queue, "", ()) if target.queue is not None else target
        key = (MessageId.of(row["message_id"]), place)
        if row["is_sent"] or key in seen:
            copies.append(row)
            continue
        seen.add(key)
        chosen.append((row, letter))
    return [row for row, _ in chosen], [letter for _, letter in chosen], copies


def _edited(
    tables: Tables, rows: list[Row], letters: list[Letter], wish: RedriveWish
) -> tuple[list[Letter], dict[str, LetterContent], list[LetterEdit]]:
    """Edit letters.

    Raises:
        QueryError: the edit is wrong.
    """
    edited: dict[str, LetterContent] = {}
    edits: list[LetterEdit] = []
    if wish.edit is None:
        return letters, edited, edits
    changed = list(letters)
    for index, (before, after) in enumerate(contents_of(tables, rows, wish.edit)):
        if before == after:
            continue
        original, version = before.hash, after.hash
        edited[version] = after
        name = str(MessageId.of(rows[index]["message_id"]))
        edits.append(LetterEdit(name, original, version, diff_of(before, after)))
        edit = Edit(original, version, *_changed_limits(before, after, name))
        changed[index] = msgspec.structs.replace(letters[index], edit=edit)
    return changed, edited, edits


def _changed_limits(
    before: LetterContent, after: LetterContent, name: str
) -> tuple[int | None, str | None]:
    """The new priority and expiration; None if they are as before.

    Raises:
        QueryError: the expiration is no number of milliseconds.
    """
    priority = expiration = None
    if before.properties.get("priority") != after.properties.get("priority"):
        priority = after.properties.get("priority") or 0
    if before.properties.get("expiration") != after.properties.get("expiration"):
        expiration = after.properties.get("expiration") or ""
    if expiration and not is_expiration(expiration):
        what = f"expiration {expiration!r} is not a number of milliseconds up to ten years"
        raise QueryError(f"letter {name}: {what}")
    return priority, expiration


def _predicate(wish: RedriveWish) -> dict[str, Any]:
    """The filter, without what was not given."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(wish.wanted))
    given = {name: value for name, value in document.items() if value not in (None, [])}
    given.pop("cause_source", None)
    return {**given, "gone": True} if wish.gone else given


def _readable(vhost: Vhost, name: str, rows: list[Row], wish: RedriveWish) -> list[Row]:
    """The letters in queues that the user may read."""
    if wish.user is None:
        return rows
    enforcing = _enforcing(vhost, wish)
    may = {
        queue: enforcing.refuse_access(wish.user, [("read", "queue", queue)], name) is None
        for queue in {row["now_in"] for row in rows}
    }
    return [row for row in rows if may[row["now_in"]]]


def _enforcing(vhost: Vhost, wish: RedriveWish) -> Vhost:
    """The vhost for questions about permissions; others may use the given one meanwhile."""
    found = copy(vhost)
    found.enforce_permissions = True
    found.administrators = wish.administrators
    return found


def _check_user(vhost: Vhost, name: str, rows: list[Row], wish: RedriveWish) -> None:
    """Refuse what the broker would refuse: reading the letters' queues, or editing them.

    Raises:
        QueryError: the user may not.
    """
    if wish.user is None:
        return
    enforcing = _enforcing(vhost, wish)
    for queue in sorted({row["now_in"] for row in rows}):
        refusal = enforcing.refuse_access(wish.user, [("read", "queue", queue)], name)
        if refusal is not None:
            raise QueryError(f"{refusal.code} {refusal.text}")
    if wish.edit is not None and wish.user not in wish.editors:
        what = f"user '{wish.user}' may not edit dead letters in vhost '{name}'"
        refusal = access_refused(what)
        raise QueryError(
            f"{refusal.code} {refusal.text}: set `edit_letters = true` for the user in dlx.toml"
        )


def _letter(
    row: Row, wish: RedriveWish, arrived: dict[MessageId | None, LetterPublication]
) -> Letter:
    """The sealed form of a letter."""
    is_resting = row["state"] in {"ready", "unacked"}
    return Letter(
        row["lane"],
        row["copy_id"],
        row["now_in"],
        None if wish.options.action == "discard" else _target(row, wish, arrived),
        row["published_ms"] or 0,
        None if is_resting else stored_letter(row),
    )


def _target(
    row: Row, wish: RedriveWish, arrived: dict[MessageId | None, LetterPublication]
) -> Target:
    exchange, keys = row["exchange"] or "", tuple(row["routing_keys"] or ("",))
    if wish.options.action == "restore":
        key = row["now_key"] or ""
        kept = keys if keys[0] == key else (key,)  # the keys of CC stay unless the queue set one
        return Target(row["now_in"], row["now_exchange"] or "", kept)
    match wish.destination:
        case "died":
            return Target(row["died_in"], exchange, keys)
        case "first":
            first = _first_death(row)
            queue = first.get("queue") or row["died_in"]
            return Target(queue, first["exchange"] or "", tuple(first["routing_keys"] or keys))
        case "queue":
            return Target(wish.name, exchange, keys)
        case "exchange":
            key = keys if wish.routing_key is None else (wish.routing_key,)
            return Target(None, wish.name, key)
        case _:
            publication = arrived.get(MessageId.of(row["message_id"]))
            if publication is not None and not publication.routing_key.startswith(VERSION_KEY):
                cc = publication.headers.get("CC")
                more = [one for one in cc if isinstance(one, str)] if isinstance(cc, list) else ()
                return Target(None, publication.exchange, (publication.routing_key, *more))
            first = _first_death(row)
            return Target(None, first["exchange"] or "", tuple(first["routing_keys"] or ("",)))


def _first_death(row: Row) -> dict[str, Any]:
    """The record of the first death: it has the exchange and keys of the publish."""
    deaths: list[dict[str, Any]] = row["x_death"] or []
    note = row["first_death"] or {}
    for death in deaths:
        if (death["queue"], death["reason"]) == (note.get("queue"), note.get("reason")):
            return death
    return deaths[-1] if deaths else {"exchange": row["exchange"], "routing_keys": None}


def _groups(
    tables: Tables,
    vhost: Vhost,
    wish: RedriveWish,
    sealed: SealedPlan,
    rows: list[Row],
    copies: list[Row],
) -> tuple[list[ForecastGroup], list[Reached]]:
    """The letters by group, and what each reaches; copies that stay go nowhere.

    Raises:
        QueryError: the broker would refuse the redrive.
    """
    found: dict[tuple[str, str, str, str], ForecastGroup] = {}
    for row in copies:
        _count(found, row, (), [COPY])
    expected: dict[tuple[int, int], Expected] = {}
    if rows and wish.options.action != "discard":
        options = msgspec.structs.replace(
            wish.options, rate=None, ceiling=None, canary=0, stop_after=None, stop_percent=None
        )
        redrive = Redrive(sealed.id, "", "", len(rows), sealed.letters, options=options)
        expected = DryRun(tables, sealed.vhost, vhost, sealed.edited).redrive(redrive, rows)
    forecast = Forecast(tables, sealed.vhost, vhost, wish.key, rows)
    reached = []
    for row, letter in zip(rows, sealed.letters, strict=True):
        one = expected.get((letter.lane, letter.copy_id))
        words = [] if one is None else forecast.words(row, one, wish.options)
        queues = () if one is None else one.queues
        reached.append(Reached(row["died_in"], datetime.fromisoformat(row["died_at"]), queues))
        _count(found, row, queues, words)
    return sorted(found.values(), key=lambda group: (-group.letters, group.died_in)), reached


def _count(
    found: dict[tuple[str, str, str, str], ForecastGroup],
    row: Row,
    queues: tuple[str, ...],
    words: list[str],
) -> None:
    """Count a letter in its group."""
    key = (row["died_in"], row["reason"], row["now_in"], ", ".join(queues))
    group = found.setdefault(key, ForecastGroup(*key))
    group.letters += 1
    for word in words:
        group.forecast[word] = group.forecast.get(word, 0) + 1
