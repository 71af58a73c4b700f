"""Which dead letters a page is about: the filter in its URL, within what the user may read.

?queue=work&reason=rejected&since=10:05  -->  DeadLetterFilter  -->  --queue work --reason rejected
"""

from typing import Final

import msgspec

from streaming.console.page import Refused, View
from streaming.console.reader import portable
from streaming.queries.dead_letters.cause_texts import CauseSource
from streaming.queries.dead_letters.filters import NAME, DeadLetterFilter, conditions
from streaming.queries.duckdb_tables import text
from streaming.queries.message_attributes import MessageId
from streaming.queries.sandbox import require_harmless, sandbox
from topology.sentences import say

WORDS: Final = ("queue", "reason", "exchange", "routing_key", "cause", "end")
"""Parameters that are options of `dlx dead-letters` and fields of the filter."""

ENDS: Final = ("lost", "dropped")
"""The values of the parameter `end`: what became of letters that no queue took."""

PARAMETERS: Final = (*WORDS, "header", "cause_header", "id", "since", "until", "where")
"""Every parameter of the filter; links between pages about letters keep them."""


def require_sql(view: View) -> None:
    """Refuse SQL of a user who may not read everything: a query could ask for any row."""
    if not view.user.administrator:
        what = say("SQL needs an administrator, who may read every vhost and queue.")
        raise Refused(403, what)


def letters_filter(view: View) -> DeadLetterFilter:
    """Read the filter in the URL, narrowed to the queues that the user may read.

    Raises:
        Refused: a parameter cannot be read, or the user may not use SQL.
    """
    header = view.text("header")
    name, equals, value = (header or "").partition("=")
    if header is not None and not name:
        raise Refused(400, say("header: expected NAME=VALUE or NAME"))
    end = view.text("end")
    if end not in {None, *ENDS}:
        what = say(
            "end: expected %(known)s, not %(given)s",
            known=", ".join(ENDS),
            given=repr((end or "")[:40]),
        )
        raise Refused(400, what)
    wanted = DeadLetterFilter(
        vhost=view.vhost,
        headers=() if header is None else ((name, value if equals else None),),
        cause_source=CauseSource(header=view.text("cause_header")),
        ids=_ids(view),
        since=view.instant("since"),
        until=view.instant("until"),
        where=_where(view),
    )
    return msgspec.structs.replace(wanted, **{word: view.text(word) for word in WORDS})


def names_by_publisher(given: str) -> bool:
    """Whether a text is the id that a publisher gave a message, rather than ids such as 1/0/42."""
    return not any(MessageId.parse(word) for word in _words(given))


def _words(given: str) -> list[str]:
    return given.replace(",", " ").split()


def _ids(view: View) -> tuple[MessageId, ...]:
    found = []
    for word in _words(view.text("id") or ""):
        one = MessageId.parse(word)
        if one is None:
            what = say(
                "id: expected ids such as 1/0/42, not %(given)s; a message_id of the publisher is "
                "looked up by Search",
                given=repr(word[:40]),
            )
            raise Refused(400, what)
        found.append(one)
    return tuple(found)


def _where(view: View) -> str | None:
    """The user's condition, or that the user may read the queue; None: no condition."""
    given = view.text("where")
    if given is not None:
        require_sql(view)
        require_harmless(view.tables, f"FROM {NAME} WHERE\n{given}\n", {NAME}, queries=False)
        sandbox(view.tables)
        return given
    return readable_queues(view)


def readable_queues(view: View) -> str | None:
    """A condition for the deaths in queues that the user may read; None: in all."""
    if view.user.administrator:
        return None
    deaths = view.tables.view(NAME, columns=["vhost", "queue"], view=view.tables.new_name(NAME))
    pairs = view.tables.values(f"SELECT DISTINCT vhost, queue FROM {deaths}")  # noqa: S608 - our name
    readable = [(vhost, queue) for vhost, queue in pairs if view.may_read(vhost, queue)]
    if len(readable) == len(pairs):
        return None
    listed = ", ".join(f"({text(vhost)}, {text(queue)})" for vhost, queue in sorted(readable))
    return f"(vhost, queue) IN ({listed})" if listed else "false"


def options_of(view: View, *, has_ids: bool = False) -> list[str]:
    """The options of a `dlx` command that mean the same filter.

    Args:
        has_ids: whether the command has the option --id.
    """
    values = kept(view)
    ids = _ids(view)
    values.pop("id", None)
    if ids and not has_ids:
        chosen = DeadLetterFilter(ids=ids, where=values.get("where"))
        values["where"] = " AND ".join(conditions(chosen))
    for name in ("since", "until"):
        if name in values:
            values[name] = portable(values[name])
    words = [word for one in ids if has_ids for word in ("--id", str(one))]
    for name, value in values.items():
        words += [f"--{name.replace('_', '-')}", value]
    return words


def kept(view: View) -> dict[str, str]:
    """The parameters of the filter that are set."""
    found = {name: view.text(name) for name in PARAMETERS}
    return {name: value for name, value in found.items() if value is not None}
