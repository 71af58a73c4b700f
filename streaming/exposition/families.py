"""Metric families: their form, and how they become text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from streaming.broker.overview import QueueOverview

Queue = tuple[str, str]
"""Vhost and name."""

Form = Literal["gauge", "counter", "histogram"]
Sample = tuple[tuple[str, ...], float]
Distribution = tuple[tuple[str, ...], list[tuple[str, float]], float]
"""Label values, cumulative counts by upper bound, and the sum."""


UNPREFIXED: Final = ("dlx_", "rabbitmq_cluster_")
"""Families that have the same name in a detailed view."""


class Figures(Protocol):
    """What the families of RabbitMQ are read from.

    Attributes:
        kinds: events of each queue by kind; incomplete until `is_seeded`.
    """

    is_seeded: bool
    kinds: dict[Queue, Counter[str]]

    @property
    def queues(self) -> Mapping[Queue, Any]:
        """The queues that have figures."""

    def queue(self, key: Queue) -> Sequence[QueueOverview]:
        """Return a queue's figures on each lane."""

    def count(self, name: str, vhost: str | None = None) -> int:
        """Return a total of all vhosts, or of one."""


F = TypeVar("F", bound=Figures)


class Scrape(NamedTuple, Generic[F]):
    """What a response shows.

    Attributes:
        endpoint: `aggregated`, `per-object` or `detailed`; RabbitMQ's label `rabbitmq_endpoint`.
        queues: the queues in it, by vhost and name.
        vhosts: only these; None: all.
        queues_left_out: how many queues are not in it because it would have too many series.
        left_out: family -> how many of its series are not in it for the same reason.
    """

    figures: F
    endpoint: str
    queues: list[Queue]
    vhosts: frozenset[str] | None = None
    queues_left_out: int = 0
    left_out: Mapping[str, int] = MappingProxyType({})

    def shows(self, vhost: str) -> bool:
        """Whether a vhost is in it."""
        return self.vhosts is None or vhost in self.vhosts


@dataclass(frozen=True)
class Family(Generic[F]):
    """A metric family.

    Attributes:
        name: as scraped; of a counter with `_total`.
        labels: of each series; a family by queue has none in the aggregated view.
        read: yields label values and a number for each series.
        by_queue: whether it has one series per queue, or one for all.
        adds_up: whether the aggregated view has one series of it, without labels.
        histogram: of a histogram; `read` is then unused.
        detailed: the families of `/metrics/detailed` that it belongs to.
        share: the most of a response that its series may take, if they are as many as the job has
            causes, partitions or vhosts; None: it has a few series, which are never left out, or
            is by queue.
        rest: turns the series that are left out into some that stand for them; None: nothing does.
    """

    name: str
    form: Form
    help: str
    labels: tuple[str, ...]
    read: Callable[[Scrape[F]], Iterable[Sample]]
    by_queue: bool = False
    adds_up: bool = False
    histogram: Callable[[Scrape[F]], Distribution] | None = None
    detailed: tuple[str, ...] = ()
    share: float | None = None
    rest: Callable[[list[Sample]], list[Sample]] | None = None

    def is_by_queue(self, endpoint: str) -> bool:
        """Whether it has one series per queue in a response."""
        return self.by_queue and endpoint != "aggregated"

    def within(self, view: Scrape[F], most: int) -> tuple[list[Sample], int]:
        """Return its first series, with the rest added up, and how many are left out.

        Args:
            most: how many it may have, the rest not counted.
        """
        found = list(self.read(view))
        rest = found[most:]
        added = self.rest(rest) if rest and self.rest is not None else []
        return found[:most] + added, len(rest)

    def metric(self, view: Scrape[F], samples: Iterable[Sample] | None = None) -> Metric:
        """Return the family with its series; in a detailed view with RabbitMQ's prefix.

        Args:
            samples: the series, if they have been read; None: read them.
        """
        name = self.name
        if view.endpoint == "detailed" and self.detailed and not name.startswith(UNPREFIXED):
            name = name.replace("rabbitmq_", "rabbitmq_detailed_", 1)
        if self.histogram is not None:
            found = HistogramMetricFamily(name, self.help, labels=self.labels)
            found.add_metric(*self.histogram(view))
            return found
        kind = CounterMetricFamily if self.form == "counter" else GaugeMetricFamily
        is_one = view.endpoint == "aggregated" and (self.by_queue or self.adds_up)
        labels = () if is_one else self.labels
        metric: Metric = kind(name, self.help, labels=labels)
        for values, value in self.read(view) if samples is None else samples:
            metric.add_metric(values, value)  # type: ignore[attr-defined] # both classes have it
        return metric


def single(read: Callable[[F], float | None]) -> Callable[[Scrape[F]], Iterator[Sample]]:
    """Return a reader of one number without labels; None: no series."""

    def samples(view: Scrape[F]) -> Iterator[Sample]:
        value = read(view.figures)
        if value is not None:
            yield (), value

    return samples


def total(*names: str) -> Callable[[Scrape[F]], Iterator[Sample]]:
    """Return a reader of a total of all vhosts."""
    return single(lambda figures: sum(figures.count(name) for name in names))


def by_queue(
    read: Callable[[F, Queue], float | None],
) -> Callable[[Scrape[F]], Iterator[Sample]]:
    """Return a reader of a number of each queue, added up unless the view is by object."""

    def samples(view: Scrape[F]) -> Iterator[Sample]:
        figures = view.figures
        if view.endpoint == "aggregated":
            values = (read(figures, queue) for queue in list(figures.queues))
            yield (), sum(value for value in values if value is not None)
            return
        for queue in view.queues:
            value = read(figures, queue)
            if value is not None:
                yield queue, value

    return samples


def of_queue(name: str) -> Callable[[Scrape[F]], Iterator[Sample]]:
    """Return a reader of an attribute of `QueueOverview`, added up over the lanes."""
    parts = name.split("+")
    return by_queue(
        lambda figures, queue: sum(
            getattr(lane, part) for lane in figures.queue(queue) for part in parts
        )
    )


def events_of_queue(*kinds: str) -> Callable[[Scrape[F]], Iterator[Sample]]:
    """Return a reader of the number of events of some kinds.

    Aggregated, it is the total of the vhosts: it also counts queues that were deleted.
    """

    def of_one(figures: F, queue: Queue) -> float | None:
        counts = figures.kinds.get(queue)
        if not figures.is_seeded:
            return None
        return 0.0 if counts is None else float(sum(counts[kind] for kind in kinds))

    per_queue, everything = by_queue(of_one), total(*kinds)

    def samples(view: Scrape[F]) -> Iterator[Sample]:
        return everything(view) if view.endpoint == "aggregated" else per_queue(view)

    return samples
