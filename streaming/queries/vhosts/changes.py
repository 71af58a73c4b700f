"""What was changed before something happened in a queue: deployments, policies and definitions.

    topology events of a span --> those that concern the queue, the latest first

A change concerns a queue if it is of the queue, of its bindings, of an exchange that feeds it or
takes its dead letters, of a policy that matches one of these, or a deployment that names the queue
or none. What cannot be told, such as the pattern of a policy that was removed, concerns it too.
What was declared before the first message entered the queue broke nothing: it is no suspect. A
deployment at the very instant of a death came after it; a policy may have dropped messages at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from streaming.queries.actions import OF_NO_VHOST, WHO
from streaming.queries.as_of.snapshots import opening_batch
from streaming.queries.duckdb_tables import Tables, iso, text
from streaming.queries.vhosts.declared import Declared, kept_value
from topology.declarations import Exchange, Policy, Queue
from topology.definitions.json_object import Fields, Report
from topology.definitions.objects import read_operator_policy, read_policy
from topology.errors import UnsupportedPatternError
from topology.policies import PolicyTable
from topology.sentences import say

DEPLOYED: Final = "deployed"
COMPONENTS: Final = (*OF_NO_VHOST, "vhost")
"""Components of the parameters that the management API keeps."""


CHANGED_BEFORE: Final = timedelta(days=1)
"""A change that was longer ago is not named as a possible cause."""

MAX_READ: Final = 1_000
_COLUMNS: Final = ("vhost", "lane", "at", "seq", "kind", "user", "channel", "detail")
_BINDINGS: Final = ("bound", "unbound")
_POLICY: Final = "policy"
_OPERATOR: Final = "operator_policy"


class Change(msgspec.Struct, frozen=True):
    """A change of policies or definitions, or a deployment.

    Attributes:
        what: such as `policy set` or `deployed`.
        name: of what was changed; a service with its version.
        user: None: the operator, or time alone.
        reason: in the words of whoever did it.
    """

    at: str
    what: str
    name: str
    user: str | None
    reason: str | None = None


def is_deployment(change: Change) -> bool:
    """Whether a change is a deployment, which acts on no queue itself."""
    return change.what == DEPLOYED


class Recorded(NamedTuple):
    """A change, its vhost, and the detail of its event."""

    vhost: str
    detail: dict[str, Any]
    change: Change


def changes_in(
    tables: Tables,
    since: datetime,
    until: datetime,
    vhost: str | None = None,
    queues: Iterable[str] | None = None,
) -> list[Recorded]:
    """List the changes of a span, the latest first; of many, the latest `MAX_READ`.

    Args:
        queues: leave out declarations and deletions of all others.
    """
    of_queues = "true"
    if queues is not None:
        named = ", ".join(map(text, queues)) or "NULL"
        of_queues = (
            "(coalesce((detail ->> '$.what'), '') NOT IN ('queue_declared', 'queue_deleted') "
            f"OR (detail ->> '$.name') IN ({named}))"
        )
    files = tables.files("events", {"at": since}, inclusive=True, kinds=["topology"])
    view = tables.new_name("events")
    tables.view("events", files=files, columns=list(_COLUMNS), view=view)
    rows = tables.rows(
        f"""
        SELECT vhost, "at", {WHO} AS "user", detail FROM {view}
        WHERE kind = 'topology' AND lane = 0 AND vhost = coalesce(?, vhost)
        AND "at" >= CAST(? AS TIMESTAMPTZ) AND "at" <= CAST(? AS TIMESTAMPTZ) AND {of_queues}
        ORDER BY "at" DESC, seq DESC LIMIT {MAX_READ}
        """,
        [vhost, since.isoformat(), until.isoformat()],
    )
    found = []
    for row in rows:
        detail = msgspec.json.decode(row["detail"] or "{}")
        what, name = what_changed(detail), changed_name(detail)
        change = Change(iso(row["at"]) or "", what, name, row["user"], detail.get("reason"))
        found.append(Recorded(row["vhost"], detail, change))
    return found


def what_changed(detail: dict[str, Any]) -> str:
    """What an event of the topology did, such as `queue declared` or `user set`."""
    what = str(detail.get("what", "changed")).replace("_", " ")
    if what != "parameter set":
        return what
    component = str(detail.get("component"))
    kind = component.replace("-", " ") if component in COMPONENTS else "parameter"
    return f"{kind} {'deleted' if kept_value(detail)[1] else 'set'}"


def changed_name(detail: dict[str, Any]) -> str:
    """The name of what an event of the topology is about, as people read it."""
    name = str(detail.get("name") or detail.get("policy") or detail.get("user") or "")
    match detail.get("what"):
        case "deployed":
            return f"{name} {detail.get('version', '')}"
        case "bound":
            return say("%(name)s to %(exchange)s", name=name, exchange=detail.get("source", ""))
        case "unbound":
            return say("%(name)s from %(exchange)s", name=name, exchange=detail.get("source", ""))
    return name


def concerning(
    recorded: Sequence[Recorded], vhost: str, queue: str, declared: Declared | None
) -> Iterator[Recorded]:
    """Choose the changes that concern a queue, in the same order.

    Args:
        recorded: the latest first.
        declared: what is declared in the vhost afterwards; None: not known.
    """
    of_vhost = [one for one in recorded if one.vhost == vhost]
    concern = _Concern(queue, declared, of_vhost)
    concerned = [concern.is_told_by(one.detail) for one in reversed(of_vhost)]
    return (one for one, it_is in zip(of_vhost, reversed(concerned), strict=True) if it_is)


def suspects(
    tables: Tables, chosen: Sequence[Recorded], queue: str, since: datetime, until: datetime
) -> Iterator[Change]:
    """The changes of a span that may be the cause of what then happened in a queue, latest first.

    Args:
        chosen: those that concern the queue, the latest first.
    """
    had_messages = True  # what is true of a change is true of those after it
    for one in chosen:
        at = datetime.fromisoformat(one.change.at)
        if not since < at <= until:
            continue
        if is_deployment(one.change):
            if at == until:
                continue
        else:
            had_messages = had_messages and _had_messages(tables, one.vhost, queue, one.change.at)
            if not had_messages:
                continue
        yield one.change


def _had_messages(tables: Tables, vhost: str, queue: str, at: str) -> bool:
    """Whether a message entered a queue before an instant, or may have: events were removed."""
    if opening_batch(tables, "events") >= 0:
        return True
    columns = ("vhost", "queue", "kind", "at")
    view = tables.view("events", columns=columns, view=tables.new_name("events"))
    sql = (
        f"SELECT 1 FROM {view} WHERE kind = 'enqueued' AND vhost = {text(vhost)} "
        f'AND queue = {text(queue)} AND "at" < CAST({text(at)} AS TIMESTAMPTZ) LIMIT 1'
    )
    return bool(tables.values(sql))


class _Concern:
    """Whether changes, asked for the earliest first, concern a queue."""

    def __init__(self, queue: str, declared: Declared | None, recorded: Sequence[Recorded]) -> None:
        self._queue = queue
        self._policies: dict[tuple[str, str], bool] = {}
        known = declared or Declared()
        declaration = known.queues.get(queue, Queue(queue))
        settings = known.vhost().settings(declaration)
        ends = [(one.destination, one.source) for one in known.bindings.values()]
        ends += [
            (str(one.detail.get("name")), str(one.detail.get("source")))
            for one in recorded
            if one.detail.get("what") in _BINDINGS
        ]
        self._exchanges = _upstream(queue, ends) - {""}
        if settings.dead_letter_exchange:
            self._exchanges.add(settings.dead_letter_exchange)
        self._known_exchanges = known.exchanges
        self._items: list[Queue | Exchange] = [declaration]
        self._items += [
            known.exchanges[name] for name in sorted(self._exchanges) if name in known.exchanges
        ]

    def is_told_by(self, detail: dict[str, Any]) -> bool:
        """Whether a change concerns the queue."""
        what, name = str(detail.get("what")), str(detail.get("name") or "")
        kind, _, change = what.rpartition("_")
        if what == DEPLOYED:
            return self._queue in detail.get("queues", [self._queue])
        if what in _BINDINGS:
            is_queue = detail.get("destination_type", "queue") == "queue"
            return name == self._queue if is_queue else name in self._exchanges
        if kind == "queue":
            return name == self._queue
        if kind == "exchange":
            is_gone = change == "deleted" and name not in self._known_exchanges
            return is_gone or name in self._exchanges
        if kind in {_POLICY, _OPERATOR}:
            return self._is_of_policy(kind, str(detail.get("policy")), detail.get("declaration"))
        return False

    def _is_of_policy(self, kind: str, name: str, document: dict[str, Any] | None) -> bool:
        """Whether a policy concerns the queue: what it is now, or what it was before."""
        before = self._policies.get((kind, name))
        if document is None:  # it was removed
            return before is not False
        read = read_operator_policy if kind == _OPERATOR else read_policy
        now = self._policies[kind, name] = self._matches(read(Fields(document, "", Report())))
        return now or before is True

    def _matches(self, policy: Policy) -> bool:
        table = PolicyTable()
        try:
            table.set(policy)
        except UnsupportedPatternError:
            return True
        return any(table.applying_to(item) is not None for item in self._items)


def _upstream(queue: str, ends: Sequence[tuple[str, str]]) -> set[str]:
    """The exchanges from which a queue is reached, also through others.

    Args:
        ends: the destination and the source of each binding.
    """
    sources: dict[str, set[str]] = {}
    for destination, source in ends:
        sources.setdefault(destination, set()).add(source)
    found: set[str] = set()
    waiting = [queue]
    while waiting:
        for source in sources.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found
