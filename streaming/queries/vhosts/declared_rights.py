"""Questions for one user, who may not read everything: see `streaming.queries.read_rights`."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Tables
from streaming.queries.read_rights import QueueName, ReadRights
from streaming.queries.vhosts.declared import Declared, declared
from topology.vhost import Vhost


def rights_of(tables: Tables, user: str, administrators: Collection[str] = ()) -> ReadRights:
    """What a user may read by the permissions after the last batch, whatever the cut is.

    Args:
        administrators: who may read everything unless they have permissions of their own.

    Raises:
        QueryError: there is no table `events`.
    """
    with tables.uncut():
        return rights_in(declared(tables), letter_places(tables), user, administrators)


def rights_in(
    vhosts: Mapping[str, Declared],
    places: Iterable[QueueName],
    user: str,
    administrators: Collection[str] = (),
) -> ReadRights:
    """The same, if it is known what is declared and where dead letters are or were."""
    checked = {}
    for name, each in vhosts.items():
        checked[name] = vhost = Vhost()
        vhost.administrators = tuple(administrators)
        for permission in each.permissions.values():
            vhost.permissions.set(permission)
    return ReadRights(user, checked, places)


def letter_places(tables: Tables) -> frozenset[QueueName]:
    """Every queue that took a dead letter, or where one died that no queue took."""
    if not tables.has(NAME):
        return frozenset()
    view = tables.view(NAME, columns=["vhost", "queue", "targets"], view="permitted_letters")
    found = tables.values(
        f"""
        SELECT DISTINCT vhost, unnest(targets) FROM {view}
        UNION SELECT DISTINCT vhost, queue FROM {view} WHERE coalesce(len(targets), 0) = 0
        """
    )
    return frozenset((vhost, queue) for vhost, queue in found)


@contextmanager
def reading_as(
    tables: Tables, user: str | None, administrators: Collection[str] = ()
) -> Iterator[None]:
    """Ask what follows for a user; None: for whom it was asked before."""
    before = tables.rights
    if user is not None:
        tables.rights = rights_of(tables, user, administrators)
    try:
        yield
    finally:
        tables.rights = before
