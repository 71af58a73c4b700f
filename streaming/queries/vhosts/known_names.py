"""The names that the tables know, so that a misspelt one is an error and not an empty answer."""

from typing import Final, Literal

from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.vhosts.clients import known_channels
from streaming.queries.vhosts.declared import declared
from topology.suggestions import did_you_mean_or_known

_USERS: Final = """
    SELECT DISTINCT "user" FROM events WHERE "user" IS NOT NULL AND vhost = coalesce(?, vhost)
"""

Noun = Literal[
    "vhost", "queue", "exchange", "policy", "operator policy", "user", "channel", "connection"
]


def known_names(tables: Tables, noun: Noun, vhost: str | None = None) -> list[str]:
    """Every name of a kind that the tables have, of one vhost or of all.

    Queues include deleted ones, whose messages are still in the tables.

    Raises:
        QueryError: there are no tables, or no such vhost.
    """
    vhosts = declared(tables)
    if noun == "vhost":
        return list(vhosts)
    if vhost is not None:
        check_name("vhost", vhost, list(vhosts))
    chosen = [each for name, each in vhosts.items() if vhost in {None, name}]
    found: set[str] = set()
    for each in chosen:
        match noun:
            case "queue":
                found.update(each.queues, each.deleted_queues)
            case "exchange":
                found.update(each.exchanges)
            case "policy":
                found.update(each.policies)
            case "operator policy":
                found.update(each.operator_policies)
            case "user":
                found.update(each.permissions)
            case _:
                pass
    if noun == "channel":
        found.update(known_channels(tables))
    if noun in {"user", "connection"}:
        tables.view("events", columns=["vhost", "user"])
        found.update(name for (name,) in tables.values(_USERS, [vhost]))
    return sorted(found)


def require_known(tables: Tables, noun: Noun, name: str, vhost: str | None = None) -> None:
    """Refuse a name that the tables do not know.

    Raises:
        QueryError: it is unknown; the text says which known name is most similar.
    """
    place = "" if vhost is None or noun == "vhost" else f" in vhost {vhost!r}"
    check_name(noun, name, known_names(tables, noun, vhost), place)


def check_name(noun: str, name: str, known: list[str], place: str = "") -> None:
    """Refuse a name that is not among the known ones.

    Raises:
        QueryError: it is unknown; the text says which known name is most similar.
    """
    if name not in known:
        hint = did_you_mean_or_known(name, dict.fromkeys(known))
        raise QueryError(f"there is no {noun} {name!r}{place}{hint}")
