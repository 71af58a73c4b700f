"""Which families a response has, and how many of their series.

A response is never cut in the middle. Families with a few series are always whole. Those that grow
with causes, partitions or vhosts have a share each, and queues get what is left. What does not fit
is counted by family, and some families add it up, so that alerts still see it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.exposition.families import F, Family, Sample, Scrape
from topology.errors import DlxError
from topology.suggestions import did_you_mean

LEFT_OUT: Final = ("dlx_metrics_queues_left_out", "dlx_metrics_series_left_out")
"""What a response says about itself; read last."""

ALWAYS: Final = ("rabbitmq_identity_info", "rabbitmq_build_info", *LEFT_OUT)
"""These are in a detailed view as well."""

RESERVED: Final = 400
"""Series kept for the families that are always whole, and for what is added up."""

OF_RABBITMQ: Final = frozenset(
    {
        *("alarm_metrics", "auth_attempt_metrics", "auth_attempt_detailed_metrics"),
        *("channel_exchange_metrics", "channel_process_metrics", "channel_metrics"),
        *("channel_queue_metrics", "channel_queue_exchange_metrics", "connection_metrics"),
        *("connection_coarse_metrics", "exchange_bindings", "exchange_names", "exchange_metrics"),
        *("node_persister_metrics", "queue_exchange_metrics", "ra_metrics", "raft_metrics"),
        *("stream_consumer_metrics",),
    }
)
"""Families of RabbitMQ that may have no meaning here; asking for them is not a mistake."""


class UnknownFamilyError(DlxError):
    """A family that neither dlx nor RabbitMQ has."""


class Collected(Collector):
    """Metrics in the form that prometheus-client encodes."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """The metrics, as they were given."""
        return self._metrics


class Exposition(Generic[F]):
    """The families of one program.

    Attributes:
        families: all, in the order of a response.
        detailed: what a detailed response can be asked for.
    """

    def __init__(self, families: Sequence[Family[F]]) -> None:
        self.families = tuple(families)
        self.detailed = tuple(dict.fromkeys(name for one in families for name in one.detailed))

    def collect(
        self,
        figures: F,
        endpoint: str,
        max_series: int,
        *,
        families: Sequence[str] = (),
        vhosts: Sequence[str] | None = None,
    ) -> list[Metric]:
        """Return the metrics of a response.

        Args:
            endpoint: `aggregated`, `per-object` or `detailed`.
            families: of a detailed response.
            vhosts: of a detailed response; None: all.

        Raises:
            UnknownFamilyError: there is no such family.
        """
        for name in families:
            if name not in self.detailed and name not in OF_RABBITMQ:
                raise UnknownFamilyError(
                    f"there is no family {name!r}{did_you_mean(name, self.detailed)}; there is: "
                    f"{' '.join(self.detailed)}"
                )
        chosen = [one for one in self.families if _is_wanted(one, endpoint, families)]
        wanted = None if vhosts is None else frozenset(vhosts)
        every = [queue for queue in list(figures.queues) if wanted is None or queue[0] in wanted]
        view = Scrape(figures, endpoint, every, wanted)
        metrics: dict[str, Metric] = {}
        left_out: dict[str, int] = {}

        def add(family: Family[F], samples: Iterable[Sample] | None = None) -> None:
            metrics[family.name] = family.metric(view, samples)

        room = max_series - RESERVED
        for family in chosen:
            if family.share is not None:
                most = int(family.share * (max_series - RESERVED))
                samples, left_out[family.name] = family.within(view, most)
                room -= len(samples)
                add(family, samples)
            elif not family.is_by_queue(endpoint) and family.name not in LEFT_OUT:
                add(family)
        by_queue = [one for one in chosen if one.is_by_queue(endpoint)]
        view = view._replace(queues=every[: max(room, 0) // len(by_queue)] if by_queue else every)
        for family in by_queue:
            add(family)
            left_out[family.name] = len(every) - len(view.queues)
        hidden = len(every) - len(view.queues)
        view = view._replace(queues_left_out=hidden, left_out=left_out)
        for family in chosen:
            if family.name in LEFT_OUT:
                add(family)
        return [metrics[family.name] for family in chosen]


def _is_wanted(family: Family[F], endpoint: str, families: Sequence[str]) -> bool:
    if endpoint != "detailed":
        return True
    return family.name in ALWAYS or any(name in families for name in family.detailed)
