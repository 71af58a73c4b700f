"""What changed in the topology between two instants: a list, and before and after as pictures."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from streaming.console.page import Answer, View
from streaming.console.pages.topology import chosen_vhost, referred, topology_address, undeclared
from streaming.console.pages.topology_graph import Picture, before_and_after, dot
from streaming.console.reader import read_instant
from streaming.queries.actions import OF_NO_VHOST
from streaming.queries.as_of.instant import resolve
from streaming.queries.as_of.snapshots import opening_batch
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import BeforeHistoryError, Tables
from streaming.queries.job_totals import last_batches
from streaming.queries.vhosts.changes import COMPONENTS, changes_in
from streaming.queries.vhosts.declared import Declared, declared, kept_value
from topology.analysis.diagram import draw
from topology.declarations import Definitions
from topology.definitions.change_plan import declared_as, flat, plan_import, what_differs
from topology.sentences import say

MAX_LISTED: Final = 500
_EFFECTS: Final[dict[str, str]] = {
    "create": say("added"),
    "absent": say("removed"),
    "replace": say("changed"),
    "conflict": say("changed"),
}
_OF_ALL: Final = tuple(name.replace("-", " ") for name in OF_NO_VHOST)
"""Kinds of objects that belong to no vhost."""

_NOT_DRAWN: Final = ("permissions", "user", "parameter", "vhost", "deployed")
_NOT_TOLD: Final = ("what", "name", "policy", "reason", "redrive", "seal", "component")
"""What has a column of its own, or is for programs."""

_BEFORE: Final = timedelta(hours=1)
_TICK: Final = timedelta(microseconds=1)


def topology_changes(view: View) -> Answer:
    """Compare what is declared at the instant of the page with another one, `compared_with`."""
    if not view.declared:
        view.title = say("What changed")
        return undeclared(view)
    vhost = chosen_vhost(view)
    view.title = say("What changed in %(vhost)s", vhost=vhost)
    view.command = view.dlx("bindings", "list")
    end = view.known_until
    other = view.text("compared_with") or (end - _BEFORE).isoformat(timespec="milliseconds")
    cut, begin = cut_of(view.tables, other)
    compared = view.of_topology(
        f"changes of {vhost} since {cut}",
        lambda: _compared(view.tables, cut, vhost, view.declared[vhost]),
    )
    changes = changes_in(view.tables, begin + _TICK, end, vhost) if begin < end else []
    differences = compared.differences
    if not view.user.administrator:  # who else the users are is for administrators
        changes = [one for one in changes if one.change.what.rpartition(" ")[0] not in _OF_ALL]
        differences = [one for one in differences if one[1] not in _OF_ALL]
    return {
        "vhost": vhost,
        "vhosts": list(view.declared),
        "other": other,
        "begin": begin,
        "end": end,
        "differences": differences,
        "graphs": [
            dot(one, lambda kind, name: topology_address(view, vhost, kind, name), view.language)
            for one in compared.pictures
        ],
        "changes": [
            (
                one.change,
                told(one.detail),
                just_before(one.change.at) if is_drawn(one.change.what) else None,
            )
            for one in changes[:MAX_LISTED]
        ],
    }


def is_drawn(what: str) -> bool:
    """Whether a change is one of what is declared, so that there is a before and after."""
    return not any(word in what for word in _NOT_DRAWN)


def told(detail: Mapping[str, Any] | None) -> dict[str, Any]:
    """The detail of an event without what other columns have; a declaration by its own names."""
    found = dict(detail or {})
    declaration = found.pop("declaration", None)
    found |= declaration if isinstance(declaration, Mapping) else {}
    if found.get("what") == "parameter_set":
        found |= _as_document(kept_value(found)[0])
        found.pop("value", None)
    return {name: one for name, one in found.items() if name not in _NOT_TOLD}


def just_before(at: str) -> str:
    """The instant to compare a change at another with; events have milliseconds."""
    instant = datetime.fromisoformat(at) - timedelta(milliseconds=1)
    return instant.isoformat(timespec="milliseconds")


_Difference = tuple[str, str, str, Mapping[str, object] | str]


class _Compared(NamedTuple):
    """What differs: effect, kind, name and detail of each object, and the pictures, if any."""

    differences: list[_Difference]
    pictures: tuple[Picture, ...]


def _compared(tables: Tables, cut: Cut | None, vhost: str, now: Declared) -> _Compared:
    """Compare what was declared at a cut, None for nothing, with what is declared now."""
    then = _then(tables, cut, vhost)
    before, after = referred(then.definitions()), referred(now.definitions())
    were, are = declared_as(before), declared_as(after)
    differences: list[_Difference] = []
    for one in plan_import(before, after, vhost):
        if one.effect in _EFFECTS:
            known = one.kind, one.name
            old, new = were.get(known, {}), are.get(known, {})
            detail = shown_as(old or new) if not (old and new) else what_differs(old, new) or {}
            differences.append((_EFFECTS[one.effect], *known, detail))
    differences += _kept(then, now)
    pictures = before_and_after(draw(before), draw(after))
    return _Compared(differences, pictures if any(one.spots for one in pictures) else ())


def shown_as(document: Mapping[str, object]) -> Mapping[str, object]:
    """What a declaration says beside its name, without what is off; a binding's name says all."""
    if "source" in document:
        return {}
    hidden = {"name", "user", "exchange"}
    return {
        member: value
        for member, value in flat(document).items()
        if member not in hidden and (value is not False or member == "durable")
    }


def declared_at(tables: Tables, cut: Cut | None, vhost: str) -> Definitions:
    """What was declared at a cut; None: nothing was."""
    return referred(_then(tables, cut, vhost).definitions())


def _then(tables: Tables, cut: Cut | None, vhost: str) -> Declared:
    if cut is None:
        return Declared()
    shown, tables.cut = tables.cut, cut
    try:
        return declared(tables).get(vhost, Declared())
    finally:
        tables.cut = shown


def _kept(then: Declared, now: Declared) -> Iterator[_Difference]:
    """What differs in the users, global parameters and descriptions that the API keeps."""
    for component, name in sorted({*then.parameters, *now.parameters}):
        kind = component.replace("-", " ") if component in COMPONENTS else "parameter"
        key = component, name
        old, new = (one.parameters.get(key) for one in (then, now))
        if key not in then.parameters:
            yield say("added"), kind, name, shown_as(_as_document(new))
        elif key not in now.parameters:
            yield say("removed"), kind, name, shown_as(_as_document(old))
        elif old != new:
            said = what_differs(_as_document(old), _as_document(new))
            yield say("changed"), kind, name, said


def _as_document(value: object) -> dict[str, object]:
    """The value of a parameter by its members; another one by `value`."""
    return dict(value) if isinstance(value, Mapping) else {"value": value}


def cut_of(tables: Tables, wanted: str) -> tuple[Cut | None, datetime]:
    """The cut of an instant, and when it is; None: before the first event, when nothing was there.

    Raises:
        QueryError: it is not an instant, or the tables do not know it any more.
    """
    shown = tables.cut
    try:
        tables.cut = cut = resolve(tables, wanted, read_instant)
        return cut, cut.at or datetime.fromtimestamp(last_batches(tables, 1)[0].at_s, UTC)
    except BeforeHistoryError as error:
        tables.cut = None
        if opening_batch(tables, "events") >= 0 or error.first is None:
            raise
        return None, error.first - timedelta(milliseconds=1)
    finally:
        tables.cut = shown
