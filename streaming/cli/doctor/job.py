"""What a job's configuration names: Kafka, its clock, the folders, the checkpoint, the tables."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from streaming.cli.doctor.machine import Finding, Status, check_folder
from streaming.cli.doctor.running import check_running
from streaming.storage.port import StoreError
from topology.errors import DlxError, InvalidDocumentError

WARN_CLOCK_MS: Final = 1_000
FAIL_CLOCK_MS: Final = 60_000
TIMEOUT_S: Final = 10
REMEDY_OF_KAFKA: Final = "start Kafka (`dlx kafka` runs one here), or correct the address"


def check_job(file: Path, timeout_s: float, *, write: bool) -> Iterator[Finding]:
    """Check a configuration and everything that it names.

    Args:
        timeout_s: how long to wait for Kafka.
        write: whether a topic may be created and deleted, to compare the clocks.
    """
    from streaming.config import load_config
    from streaming.config.definitions_files import check_secrets, load_vhost_definitions

    try:
        config = load_config(file)
        load_vhost_definitions(config)
        check_secrets(config, os.environ)
    except InvalidDocumentError as error:
        for problem in error.problems:
            yield Finding("fail", "configuration", str(problem), f"correct {file}")
        return
    yield Finding("ok", "configuration", str(file))
    yield from _folders(config)
    yield from _guarded("webhook", lambda: _webhook(config, timeout_s))
    yield from _guarded("kafka", lambda: _kafka(config, timeout_s, write=write))
    yield from _guarded("checkpoint", lambda: _checkpoint(config))
    yield from _guarded("tables", lambda: _tables(config))
    yield from _guarded("progress", lambda: check_running(config, timeout_s))


def _guarded(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Report a mistake of the operator's, or a missing package, as a finding."""
    try:
        yield from check()
    except ModuleNotFoundError as error:
        yield Finding("fail", name, f"not checked: {error}", "pip install 'dlx-stream[job]'")
    except (DlxError, StoreError) as error:
        yield Finding("fail", name, str(error), "see the message")


def _folders(config: Any) -> Iterator[Finding]:
    from streaming.config.types import is_url

    settings = ("checkpoint_location", "tables_location", "log_dir")
    for setting in settings:
        location = getattr(config.job, setting)
        name = setting.partition("_")[0]
        if location.startswith("hdfs:") and find_spec("hdfs_native") is None:
            what = f"{location} is in HDFS, and its client is not installed"
            yield Finding("fail", f"{name} folder", what, "pip install 'dlx-stream[hdfs]'")
        elif is_url(location):
            yield Finding("ok", f"{name} folder", f"{location} is not on this machine")
        else:
            yield from check_folder(f"{name} folder", Path(location), f"change job.{setting}")


def _webhook(config: Any, timeout_s: float) -> Iterator[Finding]:
    """Check that somebody listens where alerts are told; nothing is sent."""
    import socket

    from streaming.metrics.alerting.webhook import Webhook, read_secret

    alerts = config.alerts
    if alerts.webhook is None:
        return
    host, port = Webhook(alerts.webhook, read_secret(alerts.webhook_secret)).address
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError as error:
        what = f"{host}:{port} cannot be reached: {error}"
        yield Finding("warn", "webhook", what, "correct alerts.webhook, or let it through")
    else:
        yield Finding("ok", "webhook", f"{host}:{port} can be reached")


def _kafka(config: Any, timeout_s: float, *, write: bool) -> Iterator[Finding]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from streaming.config import librdkafka_properties
    from streaming.kafka_errors import KafkaErrors

    errors = KafkaErrors()
    properties = librdkafka_properties(config.kafka, os.environ)
    servers = ",".join(config.kafka.bootstrap_servers)
    settings: dict[str, Any] = {**properties, "log_level": 0, "error_cb": errors.note}
    admin = AdminClient(settings)
    try:
        metadata = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        admin.poll(0)
        why = errors.explain(error.args[0].str())
        what = f"no answer from {servers} within {timeout_s:g} s {why}"
        yield Finding("fail", "kafka", what, REMEDY_OF_KAFKA)
        yield from _ports(config)
        return
    nodes = f"{len(metadata.brokers)} broker{'s' if len(metadata.brokers) > 1 else ''}"
    yield Finding("ok", "kafka", f"{servers} answers, {nodes}")
    yield _topics(config, set(metadata.topics))
    if write:
        yield _clock(properties, admin)


def _ports(config: Any) -> Iterator[Finding]:
    """Check the ports of this machine on which no Kafka answers."""
    from streaming.embedded.kafka.ports import LOCAL_HOSTS, is_free

    for address in config.kafka.bootstrap_servers:
        host, _, port = address.rpartition(":")
        if host in LOCAL_HOSTS and is_free(int(port)):
            yield Finding(
                "ok", "port", f"{port} is free: `dlx kafka --port {port}` can listen there"
            )
        elif host in LOCAL_HOSTS:
            what = f"{port} is in use by a program that does not answer as this job's Kafka"
            remedy = "stop that program, or change kafka.bootstrap_servers"
            yield Finding("fail", "port", what, remedy)


def _topics(config: Any, known: set[str]) -> Finding:
    names = {*config.read_topics()} | {*config.outbound_topics().values()}
    missing = sorted(names - known)
    mapped = [each.topic for each in config.inputs if each.mapping is not None]
    absent = [name for name in mapped if name in missing]
    if absent:
        what = f"{', '.join(absent)}: does not exist, and the job does not create mapped topics"
        servers = ",".join(config.kafka.bootstrap_servers)
        remedy = (
            f"correct inputs.topic, or create it: `kafka-topics --create --topic {absent[0]} "
            f"--bootstrap-server {servers}`"
        )
        return Finding("fail", "topics", what, remedy)
    if missing:
        what = f"{len(missing)} of {len(names)} do not exist yet; the first start creates them"
        return Finding("ok", "topics", what)
    return Finding("ok", "topics", f"all {len(names)} exist")


def _clock(properties: dict[str, str], admin: Any) -> Finding:
    """Compare the broker's clock with ours, by a record that the broker stamps."""
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.cimpl import NewTopic

    topic = f"dlx.doctor.{uuid.uuid4().hex[:12]}"
    stamps: list[int] = []
    before_ms = after_ms = 0
    try:
        new = NewTopic(topic, 1, config={"message.timestamp.type": "LogAppendTime"})
        admin.create_topics([new])[topic].result(TIMEOUT_S)
        producer = Producer({**properties, "log_level": 0, "message.timeout.ms": 5_000})
        for _ in range(2):  # the first one also opens the connection
            stamps.clear()
            before_ms = time.time_ns() // 1_000_000
            producer.produce(
                topic, b"", on_delivery=lambda _, record: stamps.append(record.timestamp()[1])
            )
            producer.flush(TIMEOUT_S)
            after_ms = time.time_ns() // 1_000_000
    except KafkaException as error:
        what = f"not compared: {error.args[0].str()}"
        return Finding("warn", "clock", what, "let the job's user create and write topics")
    finally:
        admin.delete_topics([topic])[topic].exception(TIMEOUT_S)
    if not stamps or stamps[0] < 0:
        return Finding("warn", "clock", "not compared: Kafka did not stamp a record", "try again")
    [stamp_ms] = stamps
    apart_ms = max(before_ms - stamp_ms, stamp_ms - after_ms, 0)
    detail = f"Kafka's and this machine's differ by {apart_ms / 1000:.1f} s"
    if apart_ms < WARN_CLOCK_MS:
        return Finding("ok", "clock", detail)
    status: Status = "fail" if apart_ms >= FAIL_CLOCK_MS else "warn"
    return Finding(status, "clock", detail, "synchronise both with NTP: TTLs and leases use them")


def _checkpoint(config: Any) -> Iterator[Finding]:
    from streaming.broker.config import CORE_VERSION
    from streaming.job_locations import checkpoint_place
    from streaming.pipeline.checkpoint.folders import lease_ms
    from streaming.pipeline.checkpoint.job_state import is_running
    from streaming.pipeline.checkpoint.lease import read_lease
    from streaming.pipeline.checkpoint.manifest import read_manifest
    from streaming.pipeline.checkpoint.spark_logs import SparkLogs

    path = checkpoint_place(config, os.environ)
    manifest = read_manifest(path)
    if manifest is None:
        yield Finding("ok", "checkpoint", f"{path} has none yet; the first start creates it")
        return
    if manifest.core_version > CORE_VERSION:
        what = f"{path} was written by a newer version: {manifest.versions}"
        yield Finding("fail", "checkpoint", what, "run that version")
        return
    logs = SparkLogs(path)
    last = logs.last_committed()
    detail = f"{path}, {'no batch yet' if last is None else f'last batch {last}'}"
    detail += ", the job runs" if is_running(config) else ", the job does not run"
    if logs.has_unfinished_batch():
        detail += ", one batch is unfinished; the next start finishes it"
    yield Finding("ok", "checkpoint", detail)
    lease = None if lease_ms(config) is None else read_lease(path)
    if lease is not None:
        state = f"renewed {lease.age_ms / 1000:.0f} s ago" if lease.held else "released"
        what = f"epoch {lease.epoch}, {lease.holder}, {state}"
        if lease.held and lease.age_ms > lease.duration_ms:
            what += f": it lasts {lease.duration_ms / 1000:g} s, so the next start takes it"
        yield Finding("ok", "lease", what)


def _tables(config: Any) -> Iterator[Finding]:
    from streaming.job_locations import checkpoint_place, tables_place
    from streaming.pipeline.checkpoint.spark_logs import SparkLogs
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.table_info import NAMES, describe

    location = tables_place(config, os.environ)
    with Tables(location.url, location.options) as tables:
        has_tables = any(tables.has(name) for name in NAMES)
        found = describe(tables) if has_tables else []
    logs = SparkLogs(checkpoint_place(config, os.environ))
    has_checkpoint = logs.query_id() is not None
    rows = sum(each.rows for each in found)
    last = max((each.last_batch for each in found if each.last_batch is not None), default=None)
    detail = f"{location.url}, {len(found)} tables, {rows} rows, last batch {last}"
    remedy = "restore what is missing from a backup, or name new tables and a new checkpoint"
    if not found and has_checkpoint and logs.last_committed() is not None:
        what = f"{location.url} has no tables, but the checkpoint has batches"
        yield Finding("fail", "tables", what, remedy)
    elif last is not None and not has_checkpoint:
        what = f"{location.url} has rows, but their checkpoint is missing"
        yield Finding("fail", "tables", what, remedy)
    elif not found:
        yield Finding("ok", "tables", f"{location.url} has none yet; the first start creates them")
    else:
        yield Finding("ok", "tables", detail)
