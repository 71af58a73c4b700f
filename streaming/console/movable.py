"""Which dead letters a redrive by the user can move."""

from typing import NamedTuple

from streaming.console.page import View
from streaming.console.queue_marks import Place, letters_that_wait
from streaming.queries.dead_letters.waiting import waiting_places


class Movable(NamedTuple):
    """The letters that a redrive by the user can move.

    Attributes:
        queues: where they are; None: the user may read all queues.
        deaths: vhost, queue and reason of their deaths.
    """

    queues: frozenset[Place] | None
    deaths: frozenset[tuple[str, str, str]]

    def has(self, vhost: str | None, queue: str | None, reason: str | None) -> bool:
        """Whether there is a letter with such a death; None: any."""
        return any(
            vhost in {None, one} and queue in {None, place} and reason in {None, why}
            for one, place, why in self.deaths
        )


def movable(view: View) -> Movable:
    """Say which letters a redrive by the user can move: those that are ready and theirs to read."""
    found = [
        one
        for one in letters_that_wait(view)
        if one.ready and view.sees(one.vhost) and view.may_read(one.vhost, one.queue)
    ]
    places = frozenset((one.vhost, one.queue) for one in found)
    queues = None if view.user.administrator else places
    deaths = frozenset((one.vhost, one.died_in, one.reason) for one in found)
    if any((one.first_in, one.first_reason) != (one.died_in, one.reason) for one in found):
        deaths = view.once("movable", lambda tables: waiting_places(tables, queues))
    return Movable(queues, deaths)
