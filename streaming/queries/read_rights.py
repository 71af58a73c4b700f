"""What one user may read: the contents of the other dead letters are null in every view.

    queues that the user may read --> views of dead_letters --> no filter finds what is hidden

A dead letter is read in the queues that took it, or in the queue where it died if none did. One
that the user may read in none of them keeps its instant, queue, reason and size; its body, headers
and properties are null.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from topology.refusals import Refusal
from topology.vhost import Vhost

CONTENT: Final = frozenset({"body", "headers", "kafka_headers", "properties"})
"""The columns of `dead_letters` and `messages` that come from a publisher."""

_PLACES: Final = "CASE WHEN len(targets) > 0 THEN targets ELSE [queue] END"

QueueName = tuple[str, str]
"""A vhost, and the name of a queue in it."""


class Mask(NamedTuple):
    """Columns of a table that are null in some rows.

    Attributes:
        condition: in SQL, of the rows that keep their values.
        needs: the columns that the condition reads.
    """

    columns: Collection[str]
    condition: str
    needs: Collection[str]


class ReadRights:
    """What a user may read.

    Args:
        vhosts: by name, with permissions that are enforced.
        places: where dead letters of the tables are or were.

    Attributes:
        user: their name.
        hidden: the places whose letters the user may not read.
        masks: by table; none if nothing is hidden.
    """

    def __init__(self, user: str, vhosts: Mapping[str, Vhost], places: Iterable[QueueName]) -> None:
        self.user = user
        self._vhosts = vhosts
        readable: dict[str, list[str]] = {}
        self.hidden: list[QueueName] = []
        for vhost, queue in sorted(set(places)):
            if self.may_read(vhost, queue):
                readable.setdefault(vhost, []).append(queue)
            else:
                self.hidden.append((vhost, queue))
        mask = Mask(CONTENT, _condition(readable), ("vhost", "queue", "targets"))
        self.masks = {"dead_letters": mask} if self.hidden else {}

    def refusal(self, vhost: str, queue: str) -> Refusal | None:
        """What the broker answers when the user gets from a queue; None if it may."""
        return self._vhosts[vhost].refuse_access(self.user, [("read", "queue", queue)], vhost)

    def may_read(self, vhost: str, queue: str) -> bool:
        """Whether the user may get from a queue."""
        return vhost in self._vhosts and self.refusal(vhost, queue) is None

    def may_read_death(self, death: Mapping[str, Any]) -> bool:
        """Whether a row of `dead_letters` may be read: in a queue that took it, if one did."""
        places = death["targets"] or (death["queue"],)
        return any(self.may_read(death["vhost"], one) for one in places)

    def may_read_message(
        self, places: Iterable[QueueName], deaths: Collection[Mapping[str, Any]]
    ) -> bool:
        """Whether the user may read what is in a message.

        One death that the user may not read hides it. If it never died, one queue is enough that
        the user may read. No right to read a queue shows a message that reached none.

        Args:
            places: the queues that it was in.
            deaths: its rows of `dead_letters`.
        """
        if deaths:
            return all(map(self.may_read_death, deaths))
        return any(self.may_read(*place) for place in places)


def _condition(readable: Mapping[str, list[str]]) -> str:
    """The condition in SQL that a letter is in a queue that the user may read."""
    parts = [
        f"(vhost = {_text(vhost)} AND list_has_any({_PLACES}, [{', '.join(map(_text, queues))}]))"
        for vhost, queues in readable.items()
    ]
    return f"({' OR '.join(parts)})" if parts else "false"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
