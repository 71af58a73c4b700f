"""The families that only dlx has, with the prefix `dlx_`."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, get_args

from streaming.exposition.families import Distribution, Family, Sample, of_queue, single, total
from streaming.exposition.rabbitmq import left_out
from streaming.ledger.batch_detail import GateCause
from streaming.metrics.figures import (
    Histogram,
    JobFamily,
    JobFigures,
    JobScrape,
    Lag,
    TableSize,
    Unhandled,
)
from streaming.pipeline.reports import FAULT_KINDS


def _deaths(view: JobScrape) -> Iterator[Sample]:
    if view.figures.is_seeded:
        for key, count in list(view.figures.deaths.items()):
            if view.shows(key[0]):
                yield key, count


def _added_up(deaths: list[Sample]) -> list[Sample]:
    """Deaths by reason and outcome, of all queues that have no series of their own."""
    found: Counter[tuple[str, ...]] = Counter()
    for (_vhost, _queue, *why), count in deaths:
        found["", "", *why] += int(count)
    return list(found.items())


def _unhandled(read: Callable[[Unhandled], float]) -> Callable[[JobScrape], Iterator[Sample]]:
    def samples(view: JobScrape) -> Iterator[Sample]:
        waiting = sorted(view.figures.unhandled.items(), key=lambda one: one[1].oldest_s)
        for queue, letters in waiting:
            if view.shows(queue[0]):
                yield queue, read(letters)

    return samples


def _quarantined(view: JobScrape) -> Iterator[Sample]:
    if view.figures.is_seeded:
        yield from list(view.figures.quarantined.items())


def _faults(view: JobScrape) -> Iterator[Sample]:
    totals = view.figures.totals
    for kind in FAULT_KINDS:
        yield (kind,), 0 if totals is None else totals.job[f"faults.{kind}"]


def _equal_up_to(view: JobScrape) -> Iterator[Sample]:
    for vhost, (_first, end) in view.figures.stats.compared.items():
        yield (vhost,), end


def _gate_causes(view: JobScrape) -> Iterator[Sample]:
    gate = view.figures.gate
    for cause in get_args(GateCause):
        yield (cause,), float(gate is not None and gate.cause == cause)


def _transitions(view: JobScrape) -> Iterator[Sample]:
    totals = view.figures.totals
    for state in ("open", "closed"):
        name = "gate_opened" if state == "open" else "gate_closed"
        yield (state,), 0 if totals is None else totals.job[name]


def _lag(read: Callable[[Lag], float]) -> Callable[[JobScrape], Iterator[Sample]]:
    def samples(view: JobScrape) -> Iterator[Sample]:
        for (topic, partition), lag in list(view.figures.lags.items()):
            yield (topic, str(partition)), read(lag)

    return samples


def _table(read: Callable[[TableSize], float]) -> Callable[[JobScrape], Iterator[Sample]]:
    def samples(view: JobScrape) -> Iterator[Sample]:
        for name, size in list(view.figures.tables.items()):
            yield (name,), read(size)

    return samples


def _resident(read: Callable[[JobFigures], float]) -> Callable[[JobScrape], Iterator[Sample]]:
    return single(read)


def _redrives(view: JobScrape) -> Iterator[Sample]:
    for key, count in list(view.figures.redrives.items()):
        if view.shows(key[0]):
            yield key, count


def _retention(view: JobScrape) -> Iterator[Sample]:
    for what, seconds in view.figures.retention_s.items():
        yield (what,), seconds


def _failures(view: JobScrape) -> Iterator[Sample]:
    for source in ("kafka", "tables", "balance"):
        yield (source,), view.figures.failures[source]


def _failure(view: JobScrape) -> Iterator[Sample]:
    if view.figures.failure is not None:
        yield (view.figures.failure,), 1


def _console(view: JobScrape) -> Iterator[Sample]:
    if view.figures.console_url is not None:
        yield (view.figures.console_url,), 1


def _notifications(view: JobScrape) -> Iterator[Sample]:
    for outcome in NOTIFIED:
        yield (outcome,), view.figures.notified[outcome]


def _histogram(name: str, text: str, read: Callable[[JobFigures], Histogram]) -> JobFamily:
    def distribution(view: JobScrape) -> Distribution:
        durations = read(view.figures)
        return (), durations.buckets(), durations.sum_s

    return Family(name, "histogram", text, (), lambda _: (), histogram=distribution)


NOTIFIED: Final = ("sent", "failed", "dropped")
"""What becomes of an attempt to notify the webhook."""

QUEUE: Final = ("vhost", "queue")
PARTITION: Final = ("topic", "partition")

OWN: Final[tuple[JobFamily, ...]] = (
    Family(
        "dlx_dead_letters_total",
        "counter",
        "Deaths. The outcome is dead_lettered if every target got the dead letter; else it "
        "says why not: no_exchange, no_route, cycle, rerouted_before, cascade_limit, "
        "strategy_changed or refused. Deaths beyond half of metrics.max_series are added up "
        "without a queue.",
        ("vhost", "queue", "reason", "outcome"),
        _deaths,
        detailed=("dlx_dead_letters",),
        share=0.5,
        rest=_added_up,
    ),
    Family(
        "dlx_unhandled_dead_letters",
        "gauge",
        "Dead letters that wait in a queue, ready or unacked. What was redriven, or is back where "
        "it first died, is none.",
        QUEUE,
        _unhandled(lambda one: one.count),
        detailed=("dlx_dead_letters",),
        share=0.05,
    ),
    Family(
        "dlx_unhandled_dead_letters_oldest_timestamp_seconds",
        "gauge",
        "When the oldest dead letter that waits in a queue entered it.",
        QUEUE,
        _unhandled(lambda one: one.oldest_s),
        detailed=("dlx_dead_letters",),
        share=0.05,
    ),
    Family(
        "dlx_held_messages",
        "gauge",
        "Dead messages that at-least-once dead-lettering holds until every target accepts them.",
        QUEUE,
        of_queue("held"),
        by_queue=True,
        detailed=("dlx_dead_letters",),
    ),
    Family(
        "dlx_redrive_letters",
        "gauge",
        "Letters of all redrives by outcome: acked, died again, waiting, discarded, skipped, or "
        "parked because they were sent back too often.",
        ("vhost", "outcome"),
        _redrives,
        detailed=("dlx_dead_letters",),
        share=0.05,
    ),
    Family(
        "dlx_quarantined_total",
        "counter",
        "Kafka records that could not be understood, by topic and cause.",
        ("topic", "cause"),
        _quarantined,
        share=0.05,
    ),
    Family(
        "dlx_publish_faults_total",
        "counter",
        "Publishes that reached no queue or were not understood, by kind.",
        ("kind",),
        _faults,
    ),
    Family(
        "dlx_unexplained",
        "gauge",
        "Rows of the ledger that are missing, repeated or contradict others, according to the "
        "last balance.",
        (),
        single(lambda figures: figures.unexplained),
    ),
    Family(
        "dlx_balance_timestamp_seconds",
        "gauge",
        "When the last balance was drawn.",
        (),
        single(lambda figures: figures.balance_s),
    ),
    Family(
        "dlx_log_equal_offset",
        "gauge",
        "Offset of the log of a sequenced vhost up to which the digests of job and front were "
        "compared, and equal.",
        ("vhost",),
        _equal_up_to,
    ),
    Family(
        "dlx_gate_open",
        "gauge",
        "1 if publishes are read at full speed, 0 if flow control holds them back.",
        (),
        single(lambda figures: None if figures.gate is None else float(figures.gate.open)),
    ),
    Family(
        "dlx_gate_cause",
        "gauge",
        "1 for what decides the gate: flow control is off; resident messages are below, "
        "between or above the marks; or the memory of the processes is above its mark.",
        ("cause",),
        _gate_causes,
    ),
    Family(
        "dlx_gate_transitions_total",
        "counter",
        "Changes of the gate, by new state.",
        ("to",),
        _transitions,
    ),
    Family(
        "dlx_resident_messages",
        "gauge",
        "Messages that the broker holds: ready, unacked or held.",
        (),
        _resident(lambda figures: figures.stats.resident_messages),
    ),
    Family(
        "dlx_state_rows",
        "gauge",
        "Entries of messages in the state: one for each resident message.",
        (),
        _resident(lambda figures: figures.stats.resident_messages),
    ),
    Family(
        "dlx_state_bytes",
        "gauge",
        "Estimated size of the state, with the bodies that it refers to.",
        (),
        _resident(lambda figures: figures.stats.resident_bytes),
    ),
    Family(
        "dlx_state_read_bytes_total",
        "counter",
        "Bytes read from the state.",
        (),
        total("state_read"),
    ),
    Family(
        "dlx_state_written_bytes_total",
        "counter",
        "Bytes written to the state.",
        (),
        total("state_written"),
    ),
    _histogram(
        "dlx_batch_duration_seconds",
        "Duration of batches since the start, without the pause between them.",
        lambda figures: figures.batch_seconds,
    ),
    _histogram(
        "dlx_produce_to_visible_seconds",
        "Time from a publish's timestamp in Kafka to the commit of its batch, since the start.",
        lambda figures: figures.visible_seconds,
    ),
    Family(
        "dlx_batches_total",
        "counter",
        "Batches since the first start.",
        (),
        single(lambda figures: 0 if figures.totals is None else figures.totals.job["batches"]),
    ),
    Family(
        "dlx_last_batch_timestamp_seconds",
        "gauge",
        "When this run last committed a batch.",
        (),
        single(lambda figures: figures.last_batch_s or None),
    ),
    Family(
        "dlx_start_timestamp_seconds",
        "gauge",
        "When the job started.",
        (),
        single(lambda figures: figures.started_s),
    ),
    Family(
        "dlx_consumer_lag_records",
        "gauge",
        "Records of a partition that the job has not read. Spark commits no offsets: Kafka's "
        "own tools cannot tell.",
        PARTITION,
        _lag(lambda lag: max(lag.end - lag.offset, 0)),
        share=0.05,
    ),
    Family(
        "dlx_consumer_offset",
        "gauge",
        "The next offset that the job reads.",
        PARTITION,
        _lag(lambda lag: lag.offset),
        share=0.05,
    ),
    Family(
        "dlx_log_end_offset",
        "gauge",
        "The end of a partition.",
        PARTITION,
        _lag(lambda lag: lag.end),
        share=0.05,
    ),
    Family(
        "dlx_table_files",
        "gauge",
        "Data files of a table.",
        ("table",),
        _table(lambda size: size.files),
    ),
    Family(
        "dlx_table_bytes",
        "gauge",
        "Size of a table's data files.",
        ("table",),
        _table(lambda size: size.bytes),
    ),
    Family(
        "dlx_table_rows", "gauge", "Rows of a table.", ("table",), _table(lambda size: size.rows)
    ),
    Family(
        "dlx_as_of_earliest_timestamp_seconds",
        "gauge",
        "The earliest instant that the ledger can answer for.",
        (),
        single(lambda figures: figures.earliest_s),
    ),
    Family(
        "dlx_retention_seconds",
        "gauge",
        "How long tables.retention keeps events, bodies or dead letters.",
        ("kept",),
        _retention,
    ),
    Family(
        "dlx_totals_complete",
        "gauge",
        "1 once counters by queue and cause include earlier runs; before, they have no series.",
        (),
        single(lambda figures: float(figures.is_seeded)),
    ),
    *left_out(),
    Family(
        "dlx_kafka_reachable",
        "gauge",
        "1 if Kafka answered the last time that the job asked for the ends of its topics, else 0.",
        (),
        single(lambda figures: figures.is_kafka_reachable),
    ),
    Family(
        "dlx_failure",
        "gauge",
        "1 for what ended the last run of the job, as `dlx doctor explain` names it, until a batch "
        "is committed.",
        ("code",),
        _failure,
    ),
    Family(
        "dlx_console_info",
        "gauge",
        "The address of the job's console, for the links of alerts.",
        ("url",),
        _console,
    ),
    Family(
        "dlx_alert_notifications_total",
        "counter",
        "Attempts to notify the webhook since the start: sent, failed and tried again, or dropped.",
        ("outcome",),
        _notifications,
    ),
    Family(
        "dlx_metrics_failures_total",
        "counter",
        "Failed attempts to ask Kafka, the tables, or for the balance, since the start.",
        ("source",),
        _failures,
    ),
)
"""The families of dlx."""
