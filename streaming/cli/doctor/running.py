"""What a running job says of itself: health, progress, gate, and the records that wait for it."""

import os
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final

from streaming.cli.doctor.machine import Finding

if TYPE_CHECKING:
    from streaming.ledger.batch_detail import BatchRow
    from streaming.pipeline.checkpoint.job_state import Failing

STALE_S: Final = 60.0
"""Records that wait longer than this, while the job runs, are a finding."""


def check_running(config: Any, timeout_s: float) -> Iterator[Finding]:
    """Check whether attempts fail, and a job that has batches; nothing if there is none."""
    from streaming.pipeline.checkpoint.job_state import job_state

    state = job_state(config, os.environ)
    runs = bool(state.runs)
    if state.failing is not None:
        yield _failing(state.failing, runs=runs)
    last = last_batch(config)
    if last is None:
        return
    if runs and config.metrics.listen is not None:
        yield _health(config.metrics.listen, timeout_s)
    if runs:
        yield from _running_batch(config)
    waiting = _waiting(config, last.detail.positions, timeout_s)
    age_s = max(time.time() - last.at_s, 0.0)
    detail = f"last batch {last.batch_id}, {age_s:.0f} s ago"
    if waiting is None:
        yield Finding("ok", "progress", detail)
    elif waiting and not runs:
        what = f"{detail}; {waiting:,} records wait, and the job does not run"
        yield Finding("warn", "progress", what, "start it with `dlx run`")
    elif waiting and age_s > STALE_S:
        what = f"{detail}, although {waiting:,} records wait"
        yield Finding("fail", "progress", what, "see dlx.log and spark.log in job.log_dir")
    else:
        yield Finding("ok", "progress", f"{detail}, {waiting:,} records wait")
    gate = last.detail.gate
    if runs and gate is not None and not gate.open:
        what = f"flow control holds back publishes: {gate.cause}"
        remedy = "consume the largest queues, or raise flow.vm_memory_high_watermark"
        yield Finding("warn", "gate", what, remedy)


def _running_batch(config: Any) -> Iterator[Finding]:
    """Check, by the job's heartbeat, that no batch is stuck."""
    from confluent_kafka import KafkaException

    from streaming.config import librdkafka_properties
    from streaming.pipeline.topics.other_jobs import last_batch_mark

    try:
        mark = last_batch_mark(config, librdkafka_properties(config.kafka, os.environ))
    except KafkaException:  # the check of Kafka has reported it
        return
    if mark is not None and mark.running_ms is not None and mark.running_ms / 1000 > STALE_S:
        last = "none" if mark.id is None else mark.id
        what = f"a batch runs for {mark.running_ms / 1000:.0f} s; the last committed one is {last}"
        yield Finding("warn", "batch", what, "see dlx.log and spark.log in job.log_dir")


def _failing(failing: "Failing", *, runs: bool) -> Finding:
    """Say why no batch is committed."""
    since_s, last_s = (
        max(time.time() - at_ms / 1000, 0.0) for at_ms in (failing.since_ms, failing.last_ms)
    )
    attempts = "1 attempt" if failing.attempts == 1 else f"{failing.attempts} attempts"
    what = (
        f"no batch is committed since {since_s:.0f} s ago: {attempts} failed, the last "
        f"{last_s:.0f} s ago: {failing.said}"
    )
    remedy = f"dlx doctor explain {failing.code}"
    if not runs:
        remedy += "; then start the job again: it finishes the batch that failed"
    return Finding("fail", "batches", what, remedy)


def last_batch(config: Any) -> "BatchRow | None":
    """Return the row of the last batch; None if there is none."""
    found = last_batches(config, 1)
    return found[0] if found else None


def last_batches(config: Any, count: int) -> "list[BatchRow]":
    """Return the rows of the last batches, the newest first."""
    from streaming.job_locations import tables_place
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.job_totals import last_batches as newest

    location = tables_place(config, os.environ)
    with Tables(location.url, location.options) as tables:
        return newest(tables, count)


def _health(listen: str, timeout_s: float) -> Finding:
    """Ask the job itself."""
    status, said = ask(listen, "/healthz", timeout_s)
    if status is None:
        what = f"http://{listen} does not answer: {said}"
        remedy = "check where the job runs (in its container, if it has one), or restart it"
        return Finding("warn", "health", what, remedy)
    if status != 200:  # noqa: PLR2004 - OK
        return Finding("fail", "health", said, "see dlx.log and spark.log in job.log_dir")
    return Finding("ok", "health", f"http://{listen}/healthz: {said}")


def ask(listen: str, path: str, timeout_s: float) -> tuple[int | None, str]:
    """Return status and text of an answer; without one, None and the reason."""
    connection = HTTPConnection(listen, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return None, str(error)
    finally:
        connection.close()


def _waiting(config: Any, read: Mapping[tuple[str, int], int], timeout_s: float) -> int | None:
    """Return how many records the last batch has left in Kafka; None if Kafka does not say."""
    from confluent_kafka import KafkaException

    from streaming.config import librdkafka_properties
    from streaming.kafka_offsets import ends_of, quiet_admin

    if not read:
        return None
    admin = quiet_admin(librdkafka_properties(config.kafka, os.environ))
    try:
        ends = ends_of(admin, read, timeout_s)
    except KafkaException:  # the check of Kafka has reported it
        return None
    return sum(max(end - read[one], 0) for one, end in ends.items())
