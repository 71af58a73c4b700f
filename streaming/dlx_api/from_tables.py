"""Answers from the tables of a job, by the functions that the console and `dlx` ask."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from streaming.console.chosen_queue import queue_of, rows_of
from streaming.console.forms.job import kept_plan, plan_id
from streaming.console.forms.letters import letters_filter
from streaming.console.page import Refused, View
from streaming.console.pages.message import message_of
from streaming.console.pages.redrives import TYPED_ABOVE, planned_letters, wish_of
from streaming.console.pages.topology import referred
from streaming.console.pages.topology_changes import cut_of, declared_at
from streaming.console.reader import read_instant
from streaming.dlx_api import answers, redrive_answers, request_bodies
from streaming.dlx_api.answers import Pages, page_of
from streaming.dlx_api.questions import MAX_PAGE_SIZE, PAGE_SIZE
from streaming.protocol.sealed_plan import SealedPlan
from streaming.queries.as_of.instant import last_batch, resolve
from streaming.queries.audit.balance import balance as draw_balance
from streaming.queries.cut import Cut
from streaming.queries.dead_letters.groups import dead_letter_groups
from streaming.queries.dead_letters.search import search
from streaming.queries.duckdb_tables import NoTableError, QueryError
from streaming.queries.life.copies import copies_of
from streaming.queries.queue_changes import queue_changes
from streaming.queries.queues import list_queues, peek
from streaming.queries.redrives.kept_plans import keep_plan, kept_risks
from streaming.queries.redrives.outcomes import list_redrives, outcome_of
from streaming.queries.vhosts.clients import consumer_counts
from streaming.user_folders import plans_folder
from topology.declarations import BindingEnd, Definitions
from topology.definitions.change_plan import Change, plan_import
from topology.definitions.dump import exported_sections
from topology.definitions.load import examine
from topology.sentences import plain

MAX_GROUPS: Final = 10_000
MAX_FINDINGS: Final = 100
MAX_PROBLEMS: Final = 100
MAX_PLANS: Final = 1_000
"""Plans that are kept; more are not made."""

_BATCH: Final = 1_000
T = TypeVar("T")


Answer = Callable[[View, bytes], Any]


def _typed(kind: type[T], rows: Iterable[Mapping[str, Any]]) -> list[T]:
    return [msgspec.convert(dict(row), kind) for row in rows]


def _size(view: View) -> int:
    return view.number("page_size", PAGE_SIZE, 1, MAX_PAGE_SIZE)


def _first(view: View) -> int:
    return (view.page - 1) * _size(view)


def _with_bodies(view: View, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their bodies if they were asked for: a page of bodies may be very large."""
    if view.text("bodies") == "true":
        return rows
    return [{**row, "body": None} for row in rows]


def _page(view: View, kind: type[T], rows: list[dict[str, Any]]) -> Pages[T]:
    """A page of rows that are all there."""
    first, size = _first(view), _size(view)
    return page_of(_typed(kind, rows[first : first + size]), len(rows), view.page, size)


# -- dead letters


def dead_letters(view: View, _body: bytes) -> answers.DeadLetters:
    """A page of dead letters, and counts of all."""
    wanted = letters_filter(view)
    found = search(view.tables, wanted, _first(view), _size(view))
    items = _typed(answers.DeadLetter, _with_bodies(view, found.rows))
    page = page_of(items, found.total, view.page, _size(view))
    facets = {name: msgspec.to_builtins(each) for name, each in found.facets.items()}
    return msgspec.convert({**msgspec.structs.asdict(page), "facets": facets}, answers.DeadLetters)


def groups(view: View, _body: bytes) -> Pages[answers.Group]:
    """Groups of dead letters."""
    names = [name.strip() for name in (view.text("by") or "queue,reason").split(",")]
    wanted, new_since = letters_filter(view), view.instant("new_since")
    rows = view.once(
        f"groups {wanted} {names} {new_since}",
        lambda tables: list(
            islice(dead_letter_groups(tables, wanted, names, new_since), MAX_GROUPS)
        ),
    )
    return _page(
        view,
        answers.Group,
        [{**row, "values": {name: row[name] for name in dict.fromkeys(names)}} for row in rows],
    )


def story(view: View, _body: bytes) -> answers.Story:
    """The story of a message."""
    try:
        history = message_of(view)
    except NoTableError:
        raise
    except QueryError as error:
        raise Refused(404, str(error)) from None
    message = history.message
    return answers.Story(
        message_id=history.message_id,
        message=None if message is None else msgspec.convert(message, answers.StoredMessage),
        copies=msgspec.convert(
            msgspec.to_builtins(copies_of(history), enc_hook=plain), list[answers.CopyOfMessage]
        ),
        deaths=_typed(answers.DeadLetter, history.deaths.values()),
        events=_typed(answers.Event, history.events),
        now={str(copy_id): state for copy_id, state in history.now.items()},
        hidden=history.hidden,
        hidden_in=history.hidden_in,
        version_of=history.version_of,
        is_partial=history.forgotten.events_at is not None,
    )


# -- queues and topology


def queues(view: View, _body: bytes) -> Pages[answers.QueueThen]:
    """The queues at an instant."""
    depths = [one for one in view.once("queues", list_queues) if view.sees(one.vhost)]
    first, size = _first(view), _size(view)
    view.once("consumers", consumer_counts)
    items = _typed(answers.QueueThen, rows_of(view, depths[first : first + size]))
    return page_of(items, len(depths), view.page, size)


def contents(view: View, _body: bytes) -> Pages[answers.HeldCopy]:
    """What was in a queue."""
    place, _row = queue_of(view)
    view.require_read(place.vhost, place.queue)
    unacked = view.one_of("state", "ready", "unacked") == "unacked"
    total = place.unacked if unacked else place.ready
    first, size = _first(view), _size(view)
    rows = []
    if first < total:
        rows = peek(
            *(view.tables, place.queue), limit=size, unacked=unacked, first=first, known=place
        )
    items = _typed(answers.HeldCopy, _with_bodies(view, rows))
    return page_of(items, total, view.page, size)


def changes(view: View, _body: bytes) -> Pages[answers.QueueChange]:
    """What entered and left a queue."""
    vhost, name = str(view.vhost), str(view.text("queue"))
    if name not in view.declared[vhost].queues and name not in view.declared[vhost].deleted_queues:
        raise Refused(404, f"There was never a queue {name!r} in vhost {vhost!r}.")
    view.require_read(vhost, name)
    cuts = _cuts(view)
    return _page(view, answers.QueueChange, queue_changes(view.tables, name, *cuts, vhost))


def _cuts(view: View) -> tuple[Cut, Cut]:
    """The instants of `from` and `to`."""
    first, last = view.text("from"), view.text("to")
    if first is None:
        raise Refused(400, "from: expected an instant")
    begin = resolve(view.tables, first, read_instant)
    if last is None:
        return begin, Cut(last_batch(view.tables))
    return begin, resolve(view.tables, last, read_instant)


def topology(view: View, _body: bytes) -> answers.Topology:
    """What was declared."""
    return answers.Topology(
        source="tables", definitions=exported_sections(view.declared[str(view.vhost)].definitions())
    )


def diff(view: View, _body: bytes) -> answers.TopologyDiff:
    """What changed between two instants."""
    vhost, last = str(view.vhost), view.text("to")
    sides = [
        declared_at(view.tables, cut_of(view.tables, one)[0], vhost)
        for one in (view.text("from"), last)
        if one is not None
    ]
    if last is None:
        sides.append(referred(view.declared[vhost].definitions()))
    return _difference(plan_import(sides[0], sides[1], vhost))


def _difference(changes_of: Iterable[Change]) -> answers.TopologyDiff:
    found = list(changes_of)
    differing = [one for one in found if one.effect != "same"]
    return answers.TopologyDiff(
        differences=msgspec.convert(
            msgspec.to_builtins(differing, enc_hook=plain), list[answers.Difference]
        ),
        same=len(found) - len(differing),
    )


def import_plan(view: View, body: bytes) -> answers.TopologyDiff:
    """What an import would change."""
    vhost = str(view.vhost)
    live = view.declared[vhost].definitions()
    existing: list[BindingEnd] = [
        *(("exchange", each.name) for each in live.exchanges),
        *(("queue", each.name) for each in live.queues),
    ]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Refused(400, "The body is not text in UTF-8.") from None
    found = examine(text, default_vhost=vhost, existing={vhost: existing})
    problems = [one for one in found.problems if one.vhost in {None, vhost}]
    if problems:
        return answers.TopologyDiff(
            differences=[],
            same=0,
            problems=[
                answers.Fault(path=str(one.where), message=str(one.what))
                for one in problems[:MAX_PROBLEMS]
            ],
        )
    return _difference(plan_import(live, found.loaded.vhosts.get(vhost, Definitions()), vhost))


# -- the balance


def balance(view: View, _body: bytes) -> answers.BalanceSheet:
    """Where everything went."""
    found = draw_balance(view.tables)
    findings = [one for one in found.findings if view.sees(one.vhost)]
    return answers.BalanceSheet(
        batch_id=found.batch_id,
        unexplained=sum(one.count for one in findings),
        vhosts=_plain([one for one in found.vhosts if view.sees(one.vhost)], answers.VhostSums),
        queues=_plain([one for one in found.queues if view.sees(one.vhost)], answers.QueueSums),
        findings=_plain(findings[:MAX_FINDINGS], answers.Unexplained),
    )


def _plain(found: list[Any], kind: type[T]) -> list[T]:
    return msgspec.convert(msgspec.to_builtins(found, enc_hook=plain), list[kind])  # type: ignore[valid-type]


# -- redrives


def redrives(view: View, _body: bytes) -> Pages[redrive_answers.RedriveRow]:
    """The redrives."""
    rows = [row for row in list_redrives(view.tables, view.vhost) if view.sees(row["vhost"])]
    return _page(view, redrive_answers.RedriveRow, rows)


def outcome(view: View, _body: bytes) -> redrive_answers.Outcome:
    """What became of a redrive."""
    try:
        found = outcome_of(view.tables, plan_id(view), view.vhost)
    except NoTableError:
        raise
    except QueryError as error:
        raise Refused(404, str(error)) from None
    return redrive_answers.Outcome(
        redrive=msgspec.convert(found.redrive, redrive_answers.RedriveRow),
        new_deaths=found.new_deaths,
        letters=_page(view, redrive_answers.LetterFate, found.letters),
    )


def plan(view: View, _body: bytes) -> redrive_answers.Plan:
    """Make a sealed plan, and keep it."""
    folder = plans_folder()
    if folder.is_dir() and sum(1 for _ in folder.glob("r-*.json")) >= MAX_PLANS:
        raise Refused(409, f"{MAX_PLANS} plans are kept, which is the limit: remove old ones.")
    found = planned_letters(view, wish_of(view))
    keep_plan(found)
    made = _described(found.sealed)
    made.unacked, made.copies, made.unreadable = found.unacked, found.copies, found.unreadable
    made.groups = _plain(found.groups, redrive_answers.ForecastOf)
    made.risks = _plain(list(found.risks), redrive_answers.RiskOf)
    return made


def _described(sealed: SealedPlan) -> redrive_answers.Plan:
    return redrive_answers.Plan(
        id=sealed.id,
        seal=sealed.seal,
        vhost=sealed.vhost,
        made_at=sealed.made_at,
        action=sealed.options.action,
        letters=len(sealed.letters),
        edited=sum(one.edit is not None for one in sealed.letters),
    )


def kept_plan_of(view: View) -> SealedPlan:
    """The plan of the path.

    Raises:
        Refused: there is none, or it is of another vhost.
    """
    found = kept_plan(view, plan_id(view))
    if found is None or found.vhost != view.vhost:
        raise Refused(
            404, f"There is no plan {view.text('id')!r} that you may see: make a new one."
        )
    return found


def described_plan(view: View, _body: bytes) -> redrive_answers.Plan:
    """A plan that was made before."""
    made = _described(kept_plan_of(view))
    made.risks = _plain(kept_risks(made.id), redrive_answers.RiskOf)
    return made


def approve(view: View, body: bytes) -> list[bytes]:
    """The commands that approve a plan, each in JSON: the front carries them out."""
    wish = msgspec.json.decode(body, type=request_bodies.Approval)
    sealed = kept_plan_of(view)
    count = len(sealed.letters)
    if sealed.edited:
        what = "The plan edits letters: approve it in the console, or with `dlx redrives approve`."
        raise Refused(409, what)
    if count > TYPED_ABOVE and wish.count != count:
        raise Refused(400, f"The plan has {count} letters: give this number as count.")
    options = msgspec.structs.replace(
        sealed.options,
        rate=wish.rate,
        ceiling=wish.ceiling,
        canary=wish.canary or 0,
        stop_after=wish.stop_after,
        stop_percent=wish.stop_percent,
    )
    return [msgspec.json.encode(one) for one in sealed.commands(wish.reason, options)]


ANSWERS: Final[dict[str, Answer]] = {
    "dead_letters": dead_letters,
    "groups": groups,
    "story": story,
    "queues": queues,
    "contents": contents,
    "changes": changes,
    "topology": topology,
    "diff": diff,
    "import_plan": import_plan,
    "balance": balance,
    "redrives": redrives,
    "outcome": outcome,
    "plan": plan,
    "kept_plan": described_plan,
    "approve": approve,
}
