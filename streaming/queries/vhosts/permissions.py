"""Questions for one user, who may not read everything: see `streaming.queries.permitted`."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Tables
from streaming.queries.permitted import Permitted
from streaming.queries.vhosts.declared import declared


def permitted_for(tables: Tables, user: str, administrators: Collection[str] = ()) -> Permitted:
    """What a user may read by the permissions after the last batch, whatever the cut is.

    Args:
        administrators: who may read everything unless they have permissions of their own.

    Raises:
        QueryError: there is no table `events`.
    """
    with tables.uncut():
        vhosts = {name: each.vhost() for name, each in declared(tables).items()}
        view = "permitted_letters"
        if not tables.has(NAME):
            found = []
        else:
            tables.view(NAME, columns=["vhost", "queue", "targets"], view=view)
            found = tables.values(f"SELECT DISTINCT vhost, queue, targets FROM {view}")
    for vhost in vhosts.values():
        vhost.enforce_permissions = True
        vhost.administrators = tuple(administrators)
    places = ((vhost, one) for vhost, queue, targets in found for one in targets or (queue,))
    return Permitted(user, vhosts, places)


@contextmanager
def reading_as(
    tables: Tables, user: str | None, administrators: Collection[str] = ()
) -> Iterator[None]:
    """Ask what follows for a user; None: for whom it was asked before."""
    before = tables.permitted
    if user is not None:
        tables.permitted = permitted_for(tables, user, administrators)
    try:
        yield
    finally:
        tables.permitted = before
