"""The families of a front: RabbitMQ's, and those of its logs."""

from collections.abc import Callable, Iterator
from typing import Final

from streaming.amqp.server import LOW_ON_MEMORY
from streaming.exposition import rabbitmq
from streaming.exposition.collector import Exposition
from streaming.exposition.families import Family, Form, Sample, single
from streaming.exposition.rabbitmq import plain, process_bytes
from streaming.front_metrics.figures import FrontFamily, FrontFigures, FrontScrape
from streaming.sequencer.front import JOB_IS_BEHIND, KAFKA_IS_SLOW
from streaming.sequencer.log_state import LogState

PROTOCOL: Final = "amqp091"
"""The label `protocol` of RabbitMQ's global counters."""

BLOCKED_BY: Final = (LOW_ON_MEMORY, KAFKA_IS_SLOW, JOB_IS_BEHIND)
"""Why publishers may have to wait."""

_SHARE: Final = 0.02


def _of_log(
    name: str, form: Form, text: str, read: Callable[[FrontFigures, LogState], float | None]
) -> FrontFamily:
    """A series for each vhost on Kafka."""

    def samples(view: FrontScrape) -> Iterator[Sample]:
        for vhost, state in view.figures.logs.items():
            value = read(view.figures, state)
            if value is not None and view.shows(vhost):
                yield (vhost,), value

    return Family(
        f"dlx_front_{name}", form, text, ("vhost",), samples, detailed=("dlx_front",), share=_SHARE
    )


def _backlog(view: FrontScrape) -> Iterator[Sample]:
    for vhost, state in view.figures.logs.items():
        if view.shows(vhost):
            for step, count in state.backlog._asdict().items():
                yield (vhost, step), count


def _blocked(view: FrontScrape) -> Iterator[Sample]:
    for reason in BLOCKED_BY:
        yield (reason,), view.figures.blocked_by == reason


def _rabbitmq() -> Iterator[FrontFamily]:
    yield from rabbitmq.about(
        "front", lambda figures: figures.name, lambda figures: figures.started_s
    )
    yield from rabbitmq.queues(tells_gets=True)
    yield from rabbitmq.capacity(lambda figures, queue: queue in figures.able)
    yield from rabbitmq.messages(PROTOCOL)
    yield rabbitmq.heads(lambda figures: figures.heads)
    yield rabbitmq.exchanges(lambda figures: figures.published_to)
    yield from rabbitmq.bindings(lambda figures: figures.bound)
    yield from rabbitmq.logins(PROTOCOL, lambda figures: figures.logins)
    yield from rabbitmq.users_of_queues(
        PROTOCOL, lambda figures: figures.publishers, "Connections that have published."
    )
    yield from rabbitmq.channels()
    yield plain(
        "rabbitmq_channel_messages_unacked",
        "gauge",
        "Messages delivered and not yet acknowledged.",
        single(lambda figures: sum(each.unacked for [each] in figures.queues.values())),
    )
    yield plain(
        "rabbitmq_consumer_prefetch",
        "gauge",
        "Limits of unacknowledged messages for each consumer, those of all channels together.",
        single(lambda figures: figures.prefetch),
        "channel_metrics",
    )
    yield plain(
        "rabbitmq_channel_prefetch",
        "gauge",
        "Limits of unacknowledged messages for a whole channel, those of all channels together.",
        single(lambda figures: figures.shared_prefetch),
        "channel_metrics",
    )
    yield from rabbitmq.objects(
        lambda figures: len(figures.connections),
        lambda figures: figures.channels,
        "Open connections.",
    )
    yield plain(
        "rabbitmq_connection_channels",
        "gauge",
        "Open channels of all connections.",
        single(lambda figures: figures.channels),
        "connection_metrics",
    )
    yield from rabbitmq.churn({"queues_declared": "Queues declared that were not there before."})
    yield plain(
        "rabbitmq_connection_incoming_bytes_total",
        "counter",
        "Bytes received from all clients.",
        single(lambda figures: figures.bytes_received),
        "connection_coarse_metrics",
    )
    yield plain(
        "rabbitmq_connection_outgoing_bytes_total",
        "counter",
        "Bytes sent to all clients.",
        single(lambda figures: figures.bytes_sent),
        "connection_coarse_metrics",
    )
    yield plain(
        "rabbitmq_alarms_memory_used_watermark",
        "gauge",
        "1 if publishers wait because messages are above the mark of memory.",
        single(lambda figures: figures.blocked_by == LOW_ON_MEMORY),
        "alarm_metrics",
    )
    for name in ("file_descriptor_limit", "free_disk_space_watermark"):
        yield plain(
            f"rabbitmq_alarms_{name}",
            "gauge",
            "0: the front has no such alarm.",
            single(lambda _figures: 0),
            "alarm_metrics",
        )
    yield plain(
        "rabbitmq_resident_memory_limit_bytes",
        "gauge",
        "Mark of memory: publishers wait if the messages in queues are larger.",
        single(lambda figures: figures.high_mark_bytes),
        "node_metrics",
    )
    yield plain(
        "rabbitmq_process_resident_memory_bytes",
        "gauge",
        "Memory of the front's process.",
        single(lambda _figures: process_bytes()),
        "node_coarse_metrics",
    )
    yield from rabbitmq.files("front")
    yield rabbitmq.vhosts("front", lambda figures: figures.vhosts)


def _own() -> Iterator[FrontFamily]:
    yield _of_log(
        "leads",
        "gauge",
        "1 if clients can open the vhost here, 0 if the front follows another one.",
        lambda _, state: state.leads,
    )
    yield _of_log(
        "takeovers_total",
        "counter",
        "How often this front began to lead the vhost, its first time included.",
        lambda _, state: state.takeovers,
    )
    yield _of_log(
        "takeover_seconds",
        "gauge",
        "How long that took the last time, from the epoch record until clients could come.",
        lambda _, state: state.takeover_s,
    )
    yield _of_log(
        "losses_total",
        "counter",
        "How often this front led the vhost and had to stop: another one took over, or it failed.",
        lambda _, state: state.losses,
    )
    yield _of_log(
        "epoch_offset",
        "gauge",
        "Offset of the epoch record since which this front leads.",
        lambda _, state: state.epoch if state.leads else None,
    )
    yield _of_log(
        "log_next_offset",
        "gauge",
        "Offset of the next record that this front folds. Its distance to the end of the log is "
        "how far a standby is behind.",
        lambda _, state: state.next_offset,
    )
    yield Family(
        "dlx_front_log_backlog_records",
        "gauge",
        "Records of clients that are not applied yet, by step: unsent, because enough is on its "
        "way to Kafka; unacknowledged by Kafka; unfolded, which Kafka has.",
        ("vhost", "step"),
        _backlog,
        detailed=("dlx_front",),
        share=_SHARE,
    )
    yield _of_log(
        "log_oldest_seconds",
        "gauge",
        "How long the oldest of these has been waiting.",
        lambda _figures, state: state.oldest_s,
    )
    yield _of_log(
        "job_lag_bytes",
        "gauge",
        "How much of the log the job has not committed, at least; no series if no job follows.",
        lambda _, state: None if state.job_lag is None else state.job_lag.bytes,
    )
    yield _of_log(
        "job_lag_seconds",
        "gauge",
        "For how long the job has been behind that, at least.",
        lambda _, state: None if state.job_lag is None else state.job_lag.seconds,
    )
    yield _of_log(
        "digests_written_total",
        "counter",
        "Checksums of what came of the log that this front wrote into it, for others to compare.",
        lambda _, state: state.digests_written,
    )
    yield _of_log(
        "digests_compared_total",
        "counter",
        "Checksums of others in the log that this front compared with its own, and were equal: "
        "another one ends it.",
        lambda _, state: state.digests_compared,
    )
    yield _of_log(
        "body_cache_bytes",
        "gauge",
        "Messages that the front keeps in memory; it reads others from the log.",
        lambda _, state: state.body_bytes,
    )
    yield _of_log(
        "body_cache_limit_bytes",
        "gauge",
        "How much of them it may keep: amqp.body_cache_bytes.",
        lambda _, state: state.max_body_bytes,
    )
    yield _of_log(
        "body_reads_total",
        "counter",
        "How often the front read messages from the log, many at once.",
        lambda _, state: state.fetches,
    )
    yield _of_log(
        "snapshot_timestamp_seconds",
        "gauge",
        "When the front last wrote a snapshot of its state.",
        lambda _, state: state.snapshot_s,
    )
    yield _of_log(
        "snapshot_age_records",
        "gauge",
        "Records of the log behind the newest snapshot that this front knows: the next start "
        "reads them.",
        lambda _, state: max(state.next_offset - state.snapshot_at, 0),
    )
    yield Family(
        "dlx_front_blocked",
        "gauge",
        "1 for the reason why publishers wait now.",
        ("reason",),
        _blocked,
        detailed=("dlx_front",),
    )
    yield plain(
        "dlx_front_resident_bytes",
        "gauge",
        "Size of the messages in queues, in memory or not.",
        single(lambda figures: figures.resident_bytes),
        "dlx_front",
    )
    yield from rabbitmq.left_out()


FRONT: Final = Exposition[FrontFigures]((*_rabbitmq(), *_own()))
"""What a front exposes."""
