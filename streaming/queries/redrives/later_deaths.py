"""Letters that died again: each of their deaths finds them, not only the last one.

orders (matches) --> retry --> parking  =  the letter in parking, as one that died in orders

A chain ends where a letter is sent back: what happens to it then is not of the same death.
"""

from typing import Final

from streaming.queries.dead_letters.filters import NAME
from streaming.queries.duckdb_tables import Tables

LATER: Final = "later_deaths"
"""The table of later deaths that match nothing: `vhost`, `lane`, `copy_id`, and `matched`, the copy
of the latest death before that matches."""

_IS_SENT: Final = """
    EXISTS (FROM republished WHERE republished.vhost = again.vhost
        AND republished.lane = again.lane AND republished.copy_id = again.parent_copy_id
        AND republished.seq < again.copy_id)
"""


def prepare_later_deaths(tables: Tables) -> bool:
    """Create the table of later deaths, from `chosen_deaths` and `republished`.

    Returns:
        Whether there are any.
    """
    run = tables.connection.execute
    run(f"CREATE OR REPLACE TEMP TABLE {LATER} (vhost VARCHAR, lane INT, copy_id BIGINT)")
    [(first,)] = tables.values("SELECT min(parent_copy_id) FROM chosen_deaths")
    if first is None:
        return False
    files = tables.files(NAME, {"copy_id": first}, inclusive=True)
    columns = ["vhost", "lane", "copy_id", "parent_copy_id"]
    deaths = tables.view(NAME, files=files, columns=columns, view=tables.new_name(NAME))
    run(
        "CREATE OR REPLACE TEMP TABLE repeated_deaths AS SELECT again.* "
        f"FROM {deaths} AS again WHERE parent_copy_id IS NOT NULL AND NOT {_IS_SENT}"
    )
    run(
        f"""
        CREATE OR REPLACE TEMP TABLE {LATER} AS
        WITH RECURSIVE chain AS (
            SELECT again.vhost, again.lane, again.copy_id, chosen.parent_copy_id AS matched
            FROM chosen_deaths AS chosen JOIN repeated_deaths AS again
                USING (vhost, lane, parent_copy_id)
            UNION
            SELECT again.vhost, again.lane, again.copy_id, chain.matched
            FROM chain JOIN repeated_deaths AS again ON again.vhost = chain.vhost
                AND again.lane = chain.lane AND again.parent_copy_id = chain.copy_id)
        SELECT vhost, lane, copy_id, max(matched) AS matched
        FROM chain ANTI JOIN (
            SELECT vhost, lane, parent_copy_id AS copy_id FROM chosen_deaths
        ) USING (vhost, lane, copy_id)
        GROUP BY ALL
        """
    )
    return bool(tables.values(f"SELECT 1 FROM {LATER} LIMIT 1"))


def with_matched(tables: Tables, letters: str, columns: str) -> str:
    """The query of matching letters, with those whose last death is in the table.

    Args:
        letters: the query of the deaths that match.
        columns: what it selects from `dead_letters`.
    """
    view = tables.view(NAME, view=tables.new_name(NAME))
    return f"""
        {letters} UNION ALL BY NAME
        SELECT last.* REPLACE (earlier.queue AS died_in, earlier.reason AS reason,
               earlier.exchange AS exchange, earlier.routing_keys AS routing_keys)
        FROM (SELECT {columns} FROM {view}) AS last
        JOIN {LATER} AS later ON later.vhost = last.vhost AND later.lane = last.lane
            AND later.copy_id = last.death_copy
        JOIN {view} AS earlier ON earlier.vhost = last.vhost AND earlier.lane = last.lane
            AND earlier.copy_id = later.matched
    """
