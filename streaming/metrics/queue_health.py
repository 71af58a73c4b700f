"""The families that alerts about queues need: each has series for the few queues that it is about.

They are in every view with their queues, `/metrics` included, where other figures of queues are
added up.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from streaming.exposition.families import Family, Queue, Sample
from streaming.metrics.figures import JobFamily, JobFigures, JobScrape
from streaming.queries.death_rates import pattern_of

BACKLOG: Final = 1_000
"""Ready messages from which a queue has a backlog."""

HALF_FULL: Final = 0.5
"""The share of its limit from which a queue has a series."""

IDLE_S: Final = 60.0
"""Nobody has taken a message for so long: programs that fetch now and then have no consumer."""

QUEUE: Final = ("vhost", "queue")


def without_consumer(figures: JobFigures, queue: Queue) -> int:
    """How many messages wait in vain for a consumer.

    None does in a queue that only delays, which has a TTL, or whose messages expire or have always
    left it without a consumer into a dead-letter exchange; nor in one that is meant to be full, and
    is, and was never consumed; and dead letters wait for a decision.
    """
    lanes = figures.queue(queue)
    ready = sum(lane.ready for lane in lanes)
    if not figures.is_seeded or not ready or any(lane.consumers or lane.has_ttl for lane in lanes):
        return 0
    kinds = figures.kinds.get(queue, Counter())
    was_consumed = kinds.get("delivered", 0) + kinds.get("consumed", 0) > 0
    if not was_consumed and any(lane.dead_letters for lane in lanes):
        return 0
    if not was_consumed and _is_ring(figures, queue) and _fill(figures, queue) >= 1:
        return 0
    if time.time() - figures.taken_s.get(queue, figures.started_s) < IDLE_S:
        return 0
    letters = figures.unhandled.get(queue)
    return max(ready - (0 if letters is None else letters.count), 0)


def backlog(figures: JobFigures, queue: Queue) -> int:
    """How many messages wait, if they are many and do not wait for their TTL."""
    lanes = figures.queue(queue)
    ready = sum(lane.ready for lane in lanes)
    return ready if ready >= BACKLOG and not any(lane.has_ttl for lane in lanes) else 0


def fill(figures: JobFigures, queue: Queue) -> float:
    """How full a queue is that is not meant to be full."""
    found = _fill(figures, queue)
    return found if found >= HALF_FULL and not _is_ring(figures, queue) else 0.0


def _fill(figures: JobFigures, queue: Queue) -> float:
    return max((lane.fill for lane in figures.queue(queue)), default=0.0)


def _is_ring(figures: JobFigures, queue: Queue) -> bool:
    """Whether a queue is meant to be full: it drops its oldest, and no dead letter waits in it."""
    letters = figures.unhandled.get(queue)
    drops = any(lane.drops_head and not lane.dead_letters for lane in figures.queue(queue))
    return drops and not (letters is not None and letters.count)


def _of_queues(
    read: Callable[[JobFigures, Queue], float],
) -> Callable[[JobScrape], Iterator[Sample]]:
    """Return a reader of the queues of which a number is not 0, the largest first."""

    def samples(view: JobScrape) -> Iterator[Sample]:
        queues = [queue for queue in list(view.figures.queues) if view.shows(queue[0])]
        found = [(queue, number) for queue in queues if (number := read(view.figures, queue))]
        yield from sorted(found, key=lambda one: -one[1])

    return samples


def _quiet(view: JobScrape) -> Iterator[Sample]:
    figures = view.figures
    exceptions: Mapping[str, Sequence[str]] = {"": figures.quiet, **figures.quiet_of}
    for alert, names in exceptions.items():
        if names:
            pattern = re.compile(pattern_of(names))
            for vhost, name in view.queues:
                if pattern.fullmatch(name):
                    yield (vhost, name, alert), 1


QUEUE_HEALTH: Final[tuple[JobFamily, ...]] = (
    Family(
        "dlx_unconsumed_messages",
        "gauge",
        "Ready messages of a queue that has no consumer, and from which nothing has been taken for "
        "a minute. Dead letters do not count, nor do queues that only delay: with a TTL, or with a "
        "dead-letter exchange and never a delivery; nor those that are meant to be full.",
        QUEUE,
        _of_queues(without_consumer),
        detailed=("dlx_queue_health",),
        share=0.01,
    ),
    Family(
        "dlx_backlog_messages",
        "gauge",
        f"Ready messages of a queue that has at least {BACKLOG:,} of them, and no TTL.",
        QUEUE,
        _of_queues(backlog),
        detailed=("dlx_queue_health",),
        share=0.01,
    ),
    Family(
        "dlx_queue_fill_ratio",
        "gauge",
        "The share of max-length or max-length-bytes that ready messages take, from one half on. "
        "Queues that drop their oldest messages, and have no dead-letter exchange, have none: they "
        "are meant to be full, unless dead letters wait in them.",
        QUEUE,
        _of_queues(fill),
        detailed=("dlx_queue_health",),
        share=0.01,
    ),
    Family(
        "dlx_quiet_queue",
        "gauge",
        "1 for queues that alerts leave out: all of them (metrics.quiet_queues), or the one that "
        "the label alert names (alerts.quiet).",
        (*QUEUE, "alert"),
        _quiet,
        detailed=("dlx_dead_letters", "dlx_queue_health"),
        share=0.05,
    ),
)
"""What alerts about queues look at, and which queues they leave out."""
