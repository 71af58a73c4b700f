"""Make the sealed plan of a redrive, and the forecast of what it would do now."""

from collections import Counter
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import msgspec

from streaming.broker.commands import Edit, Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.dead_letters.x_death import is_cycle
from streaming.broker.message import Death
from streaming.broker.redrives.letters import is_expiration
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.sealed_plan import SealedPlan
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.message_attributes import MessageId, present
from streaming.queries.queues import ready_counts
from streaming.queries.redrives.candidates import (
    LetterPublication,
    Which,
    candidates,
    overtaken,
    publications,
)
from streaming.queries.redrives.edits import EditWish, LetterEdit, contents_of, diff_of
from streaming.queries.vhosts.clients import consumer_counts
from streaming.queries.vhosts.declared import declared
from streaming.queries.vhosts.permissions import reading_as
from topology.declarations import too_long
from topology.refusals import access_refused
from topology.values import table_from_json
from topology.vhost import Vhost

Destination = Literal["died", "original", "queue", "exchange"]

UNROUTABLE: Final = "unroutable"
QUEUE_GONE: Final = "queue gone"
EXCHANGE_GONE: Final = "exchange gone"
PARKED: Final = "redriven too often"
EXPIRES: Final = "expires at once"
FULL: Final = "target full"
DROPS: Final = "pushes out older ones"
CYCLE: Final = "lost if it expires again"
NO_CONSUMER: Final = "no consumer"
OVERTAKEN: Final = "a later one was acked"
AGAIN: Final = "redriven before"
COPY: Final = "a copy that stays"
FORECASTS: Final = (
    *(UNROUTABLE, QUEUE_GONE, EXCHANGE_GONE, PARKED, EXPIRES, FULL, DROPS, CYCLE, NO_CONSUMER),
    *(OVERTAKEN, AGAIN, COPY),
)
"""What may become of a letter; the first four and the last do not move."""


class RedriveWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a user wants to be planned.

    Attributes:
        wanted: which dead letters.
        gone: the letters that are in no queue any more, instead of those that are.
        destination: `died`: the queue where it died; `original`: the exchange and key of its
            publish; `queue` and `exchange`: those of that name.
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
    """

    sealed: SealedPlan
    groups: list[ForecastGroup]
    unacked: int
    copies: int = 0
    edits: tuple[LetterEdit, ...] = ()
    unreadable: int = 0


def plan_redrive(tables: Tables, wish: RedriveWish) -> RedrivePlan:
    """Plan a redrive; nothing moves.

    Raises:
        QueryError: the filter, the destination or the edit is wrong, the letters are in several
            vhosts, or the user may not read their queues or edit them.
    """
    with reading_as(tables, wish.user, wish.administrators):
        return _planned(tables, wish)


def _planned(tables: Tables, wish: RedriveWish) -> RedrivePlan:
    for given in (wish.name, wish.routing_key or ""):
        if too_long(given):
            raise QueryError(f"destination {given[:20]!r}...: {too_long(given)}")
    rows = _rows(tables, wish)
    if len(rows) > wish.most:
        raise QueryError(f"{len(rows)} letters match, more than {wish.most}: narrow the filter")
    vhosts = sorted({row["vhost"] for row in rows})
    if len(vhosts) > 1:
        names = ", ".join(map(repr, vhosts))
        raise QueryError(f"the letters are in the vhosts {names}: choose one vhost")
    name = vhosts[0] if vhosts else wish.wanted.vhost or "/"
    vhost = declared(tables)[name].vhost() if vhosts else Vhost("4.0")
    matching = len(rows)
    if wish.only_readable:
        rows = _readable(vhost, name, rows, wish)
    _check_user(vhost, name, rows, wish)
    ready = [row for row in rows if row["state"] != "unacked"]
    unacked = len(rows) - len(ready)
    arrived = publications(tables, ready) if wish.destination == "original" and ready else {}
    letters = [_letter(row, wish, arrived) for row in ready]
    ready, letters, copies = _once(ready, letters, wish)
    ready, letters, edited, edits = _edited(tables, ready, letters, wish)
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
    groups = _Forecast(tables, name, vhost, wish, ready).groups(ready, letters, copies)
    unreadable = matching - len(rows)
    return RedrivePlan(sealed, groups, unacked, len(copies), tuple(edits), unreadable)


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
    which: Which = "gone" if wish.gone else "resting"
    if wish.options.action == "restore":
        which = "discarded"
    return candidates(tables, wish.wanted, which)


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
) -> tuple[list[Row], list[Letter], dict[str, LetterContent], list[LetterEdit]]:
    """Edit letters; the rows get the new headers, for the forecast.

    Raises:
        QueryError: the edit is wrong.
    """
    edited: dict[str, LetterContent] = {}
    edits: list[LetterEdit] = []
    if wish.edit is None:
        return rows, letters, edited, edits
    changed_rows, changed = list(rows), list(letters)
    for index, (before, after) in enumerate(contents_of(tables, rows, wish.edit)):
        if before == after:
            continue
        original, version = before.hash, after.hash
        edited[version] = after
        name = str(MessageId.of(rows[index]["message_id"]))
        edits.append(LetterEdit(name, original, version, diff_of(before, after)))
        edit = Edit(original, version, *_changed_limits(before, after, name))
        changed[index] = msgspec.structs.replace(letters[index], edit=edit)
        headers = None if after.headers is None else msgspec.json.encode(after.headers).decode()
        changed_rows[index] = {**rows[index], "headers": headers}
    return changed_rows, changed, edited, edits


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
    vhost.enforce_permissions = True
    vhost.administrators = wish.administrators
    may = {
        queue: vhost.refuse_access(wish.user, [("read", "queue", queue)], name) is None
        for queue in {row["now_in"] for row in rows}
    }
    return [row for row in rows if may[row["now_in"]]]


def _check_user(vhost: Vhost, name: str, rows: list[Row], wish: RedriveWish) -> None:
    """Refuse what the broker would refuse: reading the letters' queues, or editing them.

    Raises:
        QueryError: the user may not.
    """
    if wish.user is None:
        return
    vhost.enforce_permissions = True
    vhost.administrators = wish.administrators
    for queue in sorted({row["now_in"] for row in rows}):
        refusal = vhost.refuse_access(wish.user, [("read", "queue", queue)], name)
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
        None if is_resting else _stored(row),
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


def _stored(row: Row) -> StoredLetter:
    message = row["message_id"]
    properties = present(row["properties"])
    return StoredLetter(
        (message["topic_number"], message["partition"], message["offset"]),
        row["body_bytes"] or 0,
        max(properties.get("priority", 0), 0),
        row["headers"],
        tuple(_deaths(row)),
        _note(row["first_death"]),
        _note(row["last_death"]),
    )


def _deaths(row: Row) -> list[tuple[int, str, str, int, str, tuple[str, ...], str | None]]:
    return [
        (
            max(death["count"] or 0, 0),
            death["reason"] or "",
            death["queue"] or "",
            _seconds(death["time"]),
            death["exchange"] or "",
            tuple(death["routing_keys"] or ()),
            death["original_expiration"],
        )
        for death in row["x_death"] or []
    ]


def _seconds(instant: str | None) -> int:
    return (
        0 if instant is None else int(datetime.fromisoformat(f"{instant[:19]}+00:00").timestamp())
    )


def _note(note: dict[str, str] | None) -> tuple[str, str, str] | None:
    if note is None or note["reason"] is None:
        return None
    return note["reason"], note["queue"], note["exchange"]


class _Forecast:
    """Says what would become of letters by the current topology."""

    def __init__(
        self, tables: Tables, name: str, vhost: Vhost, wish: RedriveWish, rows: list[Row]
    ) -> None:
        self._vhost = vhost
        self._wish = wish
        self._tables, self._name = tables, name
        counts = consumer_counts(tables)
        self._consumers = {queue: n for (where, queue), n in counts.items() if where == name}
        self._acked = overtaken(tables, wish.key, rows)
        self._now_ms = int(datetime.now(UTC).timestamp() * 1000)

    @cached_property
    def _depths(self) -> dict[str, int]:
        """How many copies are ready by queue; only limits need it."""
        return ready_counts(self._tables, self._name)

    def groups(
        self, rows: list[Row], letters: list[Letter], copies: list[Row]
    ) -> list[ForecastGroup]:
        """The letters by group; copies that stay go nowhere."""
        found: dict[tuple[str, str, str, str], ForecastGroup] = {}
        for row in copies:
            key = (row["died_in"], row["reason"], row["now_in"], "")
            group = found.setdefault(key, ForecastGroup(*key))
            group.letters += 1
            group.forecast[COPY] = group.forecast.get(COPY, 0) + 1
        coming = Counter[str]()
        for row, letter in zip(rows, letters, strict=True):
            queues, expected = self._of(row, letter, coming)
            key = (row["died_in"], row["reason"], row["now_in"], ", ".join(queues))
            group = found.setdefault(key, ForecastGroup(*key))
            group.letters += 1
            for each in expected:
                group.forecast[each] = group.forecast.get(each, 0) + 1
        return sorted(found.values(), key=lambda group: (-group.letters, group.died_in))

    def _of(self, row: Row, letter: Letter, coming: Counter[str]) -> tuple[list[str], list[str]]:
        """The queues a letter would reach, and what is to be expected."""
        target, options = letter.target, self._wish.options
        if target is None:
            return [], []
        expected = [AGAIN] if row["redriven"] else []
        if options.action == "redrive" and row["redriven"] >= options.cap:
            return [], [PARKED, *expected]
        queues, fault = self._route(row, target)
        if fault:
            return [], [fault, *expected]
        for queue in queues:
            expected += self._at(row, letter, queue, coming)
            coming[queue] += 1
        value = row["routing_keys"][0] if row["routing_keys"] else None
        if self._wish.key.startswith("header:"):
            headers = msgspec.json.decode(row["headers"] or "{}")
            found = headers.get(self._wish.key.removeprefix("header:"))
            if found is not None and not isinstance(found, str):
                found = msgspec.json.encode(
                    found
                ).decode()  # as the `->>` of `overtaken` returns it
            value = found
        last = self._acked.get((row["vhost"], row["lane"], row["died_in"], value), -1)
        if value is not None and last > row["death_copy"]:
            expected.append(OVERTAKEN)
        return queues, sorted(set(expected), key=FORECASTS.index)

    def _route(self, row: Row, target: Target) -> tuple[list[str], str]:
        vhost = self._vhost
        if target.queue is not None:
            gone = target.queue not in vhost.queues
            return ([], QUEUE_GONE) if gone else ([target.queue], "")
        if target.exchange not in vhost.router.exchanges:
            return [], EXCHANGE_GONE
        headers = table_from_json(msgspec.json.decode(row["headers"] or "{}"))
        queues = list(vhost.router.route(target.exchange, target.routing_keys, headers).queues)
        return queues, "" if queues else UNROUTABLE

    def _at(self, row: Row, letter: Letter, queue: str, coming: Counter[str]) -> list[str]:
        """What is to be expected in one queue."""
        settings = self._vhost.settings(self._vhost.queues[queue])
        options = self._wish.options
        expected = []
        if settings.message_ttl_ms == 0 or self._expires(row, letter):
            expected.append(EXPIRES)
        if settings.max_length is not None:
            depth = self._depths.get(queue, 0) + coming[queue]
            if depth >= settings.max_length:
                expected.append(DROPS if settings.overflow == "drop-head" else FULL)
        if options.x_death == "keep" and settings.dead_letter_exchange is not None:
            deaths = tuple(Death(*death) for death in _deaths(row))
            exchange = settings.dead_letter_exchange
            if exchange in self._vhost.router.exchanges:
                key = settings.dead_letter_routing_key
                keys = row["routing_keys"] if key is None else [key]
                route = self._vhost.router.route(exchange, tuple(keys or ("",)), {})
                if route.queues and all(is_cycle(deaths, name) for name in route.queues):
                    expected.append(CYCLE)
        if not self._consumers.get(queue):
            expected.append(NO_CONSUMER)
        return expected

    def _expires(self, row: Row, letter: Letter) -> bool:
        if letter.edit is not None and letter.edit.expiration is not None:
            return letter.edit.expiration == "0"
        given = [death["original_expiration"] for death in row["x_death"] or []]
        expiration = next((one for one in reversed(given) if one is not None), None)
        if expiration is None or self._wish.options.expiration == "drop":
            return False
        if self._wish.options.expiration == "restart":
            return int(expiration) == 0
        return letter.published_ms + int(expiration) <= self._now_ms
