"""`dlx bench pipeline`: measures the job on real Kafka, Spark and Delta, on this machine.

    throughput  every message dies once: Spark's plain copy of the same records, the core alone (one
                process, no Kafka, Spark or Delta), the job with one lane and with one per core
    shapes      the job with one lane, by what the messages carry: nothing, unique ids, headers of
                AMQP, headers of a trace
    consume     publish, deliver, acknowledge: one and ten queues, with and without prefetch limit
    lanes       the same with one lane and with one per core: the ratio of their rates
    settle      the same with single acks, and with every tenth message rejected
    versus      dead-lettering and consuming beside a RabbitMQ that PerfTest drives
    versus_amqp consuming beside it over AMQP: the front on Kafka, and how far tables are behind
    latency     from a consumer's reject to the row in `dead_letters`, at a steady rate
    resident    batch time with many messages in the queues against few
    queues      batch time with many active queues against few
    commits     commit time after many earlier batches against few
    idle        cores in use, and batches, while nothing is published

All figures of a line are from one run; `..._us` is the processor time of a part of the system, in
microseconds per message, and `..._share` a part's share in the time of the batches. Batch times are
Spark's, from trigger to end, with commits and checkpoint. They consist of:

    spark_s       before and after the stages: offsets, plan, the checkpoint's logs
    stages_s      the Spark job
      read, understand, write               first stage, the slowest task
      unpack, fold, rows, outbound, state   stateful stage, the slowest task
      exchange    the rest: starting tasks, the shuffle, the commit of the state store
    commit_s      the commit of the four tables
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Final

from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import Message, Publication
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.state.vhost_codec import VhostCache
from streaming.config.job import JobSettings
from streaming.protocol.command_json import parse_command
from tests.bench.core import event_columns
from tests.bench.pipeline import commit_history
from tests.bench.pipeline.baseline_copy import copy_rate
from tests.bench.pipeline.consuming import Consuming, consume_rate
from tests.bench.pipeline.figures import (
    WARM_UP,
    Figures,
    Sizes,
    after_warm_up,
    batch_parts,
    batch_shares,
    percentile,
    us_per_message,
)
from tests.bench.pipeline.reject_latency import reject_latencies
from tests.bench.pipeline.traffic import ATTRIBUTES, Shape, declarations
from tests.bench.pipeline.versus import versus
from tests.bench.pipeline.versus_amqp import versus_amqp
from tests.bench.processes import CpuUse

if TYPE_CHECKING:
    from tests.bench.pipeline.environment import BenchEnvironment

RECORDS_PER_MS: Final = 20
SETTLE_S: Final = 10
IDLE_TRIGGER_MS: Final = JobSettings().trigger_ms


def throughput(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure messages per second while every message dies once."""
    cores = environment.cores
    shape = Shape(max_length=max(2 * cores, min(1_000, sizes.batch // 200)))
    topic = "throughput"
    lanes_by_case = {f"lanes_{lanes}": lanes for lanes in sorted({1, cores})}
    total = sizes.messages + WARM_UP * sizes.batch
    environment.traffic.create_topic(topic, cores)
    for name, lanes in lanes_by_case.items():
        environment.declare(name, declarations(shape), lanes)
    environment.traffic.publish(topic, shape, total, cores)
    folder = environment.root / "copy"
    with CpuUse(environment.known_processes) as cpu:
        copy = copy_rate(
            environment.spark, environment.servers, topic, folder, sizes.batch, WARM_UP
        )
    copy_cores = cpu.cores(copy.start_s, copy.end_s)
    yield {
        "case": "copy",
        "messages_per_s": round(copy.rate),
        **us_per_message(copy_cores, copy.rate),
    }
    core = core_rate(shape, sizes.messages, min(sizes.batch, 20_000))
    yield {"case": "core", "messages_per_s": round(core), "core_us": round(1e6 / core, 1)}
    deaths = total - shape.queues * shape.max_length
    for name, lanes in lanes_by_case.items():
        rate, figures = job_rate(environment, sizes, name, topic, lanes, (total, deaths))
        yield {
            "case": name,
            "messages_per_s": round(rate),
            "of_copy": round(rate / copy.rate, 2),
            "of_core": round(rate / core, 2),
            **figures,
        }


def shapes(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure messages per second by what the messages carry, with one lane."""
    plain = 0.0
    total = sizes.messages + WARM_UP * sizes.batch
    for attributes in ATTRIBUTES:
        shape = Shape(max_length=max(2, min(1_000, sizes.batch // 200)), attributes=attributes)
        name = f"shape_{attributes}"
        environment.traffic.create_topic(name, environment.cores)
        environment.declare(name, declarations(shape))
        environment.traffic.publish(name, shape, total, environment.cores)
        deaths = total - shape.queues * shape.max_length
        rate, figures = job_rate(environment, sizes, name, name, 1, (total, deaths))
        plain = plain or rate
        yield {
            "case": name,
            "messages_per_s": round(rate),
            "of_plain": round(rate / plain, 2),
            **figures,
        }


def job_rate(
    environment: BenchEnvironment,
    sizes: Sizes,
    name: str,
    topic: str,
    lanes: int,
    expected: tuple[int, int],
) -> tuple[float, Figures]:
    """Run a job on a full topic; return messages per second, and the parts of its batches.

    Args:
        expected: publishes and deaths after which it has finished.
    """
    total, deaths = expected
    config = environment.config(name, topic, lanes=lanes, batch_rows=sizes.batch)
    with environment.job(config) as job:
        job.wait_until(lambda: job.published >= total and job.died >= deaths)
        start_s, counted = after_warm_up(job.batches, WARM_UP * sizes.batch)
    seconds = counted[-1].at_s - start_s
    publishes = sum(each.publishes for each in counted)
    rate = publishes / seconds
    cores = job.cpu.cores(start_s, counted[-1].at_s)
    return rate, {
        "deaths_per_message": round(sum(each.deaths for each in counted) / publishes, 2),
        "batch_s": round(seconds / len(counted), 2),
        **batch_parts(counted, job.progress),
        **cores,
        **us_per_message(cores, rate),
    }


def core_rate(shape: Shape, messages: int, batch: int) -> float:
    """Do the same work in the core alone; return messages per second of the median batch."""
    store = MemoryStore()
    cache = VhostCache()
    actor = Actor(None, "pub")
    config = ShardConfig(consumer_timeout_ms=None)
    shard = Shard(config, store, cache=cache)
    for document in declarations(shape):
        shard.command(0, parse_command(document), actor)
    shard.finish()
    publications = [Publication("orders", f"w{number}") for number in range(shape.queues)]
    seconds = []
    gc.collect()
    gc.disable()
    try:
        for first in range(0, messages, batch):
            records = [
                (offset // RECORDS_PER_MS, Message(1, 0, offset, 1, offset, 200))
                for offset in range(first, first + batch)
            ]
            start_s = time.perf_counter()
            shard = Shard(config, store, cache=cache)
            for at_ms, message in records:
                shard.publish(at_ms, message, publications[message.offset % shape.queues], 0, actor)
            event_columns(shard.finish().events)
            seconds.append(time.perf_counter() - start_s)
    finally:
        gc.enable()
    return batch / median(seconds)


def consume(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure messages per second from the publish to the ack, with `multiple` acks."""
    for queues in (1, 10):
        for prefetch in (0, 2_000):
            kind = Consuming(queues=queues, prefetch=prefetch, messages=sizes.consumed)
            name = f"consume_{queues}_{prefetch or 'unlimited'}"
            yield _consuming(environment, name, kind)


def lanes(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare messages per second from the publish to the ack by lanes."""
    one = 0.0
    for count in sorted({1, environment.cores}):
        kind = Consuming(queues=10, prefetch=0, messages=sizes.consumed, lanes=count)
        figures = _consuming(environment, f"consume_lanes_{count}", kind)
        one = one or figures["messages_per_s"]
        yield {**figures, "of_one_lane": round(figures["messages_per_s"] / one, 2)}


def settle(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure the same with one settlement per message, without and with rejects."""
    for rejected in (0, 10):
        kind = Consuming(messages=sizes.consumed, single=True, reject_every=rejected)
        yield _consuming(environment, f"settle_{rejected}", kind)


def _consuming(environment: BenchEnvironment, name: str, kind: Consuming) -> Figures:
    found = consume_rate(environment, name, kind)
    deliveries = sum(each.batch.seconds.get("outbound", 0.0) for each in found.batches)
    return {
        "case": name,
        "messages_per_s": round(found.rate),
        "outbound_us": round(1e6 * deliveries / kind.messages, 1),
        **batch_shares(batch_parts(found.batches, found.progress)),
        **found.cores,
        **us_per_message(found.cores, found.rate),
    }


def latency(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure the time from a reject to its row in `dead_letters`."""
    for rate in sizes.rates:
        found = reject_latencies(environment, f"latency-{rate}", rate, sizes.seconds)
        yield {
            "case": "latency",
            "rate": rate,
            "rejects": len(found.seconds),
            "p50_ms": round(1000 * percentile(found.seconds, 0.5)),
            "p99_ms": round(1000 * percentile(found.seconds, 0.99)),
            **batch_parts(found.batches, found.progress),
            **found.cores,
            **us_per_message(found.cores, rate),
        }


def resident(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare batch times by the number of messages in the queues."""
    times = {}
    for count in sizes.pair(sizes.few[0], sizes.resident):
        shape = Shape(queues=10, max_length=max(1, count // 10), death="length")
        times[count] = _batch_times(environment, f"resident-{count}", shape, sizes, fill=count)
    yield _comparison("resident", times)


def queues(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare batch times by the number of queues that get the same number of messages."""
    times = {}
    for count in sizes.pair(sizes.few[1], sizes.queues):
        shape = Shape(queues=count, max_length=1, death="length")
        times[count] = _batch_times(environment, f"queues-{count}", shape, sizes, fill=count)
    yield _comparison("queues", times)


def _comparison(case: str, times: dict[int, dict[str, float]]) -> Figures:
    """Two batch times, their ratio, the parts of both in milliseconds, and the processor time."""
    (few, few_parts), (many, many_parts) = times.items()
    few_s, many_s = few_parts.pop("batch_s"), many_parts.pop("batch_s")
    return {
        "case": case,
        "few": few,
        "few_batch_ms": round(1000 * few_s),
        "many": many,
        "many_batch_ms": round(1000 * many_s),
        "ratio": round(many_s / few_s, 2),
        **{
            f"{name.removesuffix('_s')}_ms": [round(1000 * few_parts[name]), round(1000 * part)]
            for name, part in many_parts.items()
            if name.endswith("_s") and name in few_parts
        },
        **{
            name: [few_parts[name], used]
            for name, used in many_parts.items()
            if name.endswith("_us")
        },
    }


def _batch_times(
    environment: BenchEnvironment, name: str, shape: Shape, sizes: Sizes, fill: int
) -> dict[str, float]:
    """Median seconds of a batch of `small_batch` messages, after `fill` messages.

    As many batches are ignored first: they are small, and the JVM compiles for a minute.
    """
    commands = declarations(shape)
    environment.traffic.create_topic(name, 1)
    environment.declare(name, commands)
    with environment.job(environment.config(name, name, batch_rows=sizes.batch)) as job:
        job.wait_until(lambda: job.commands_read(f"{name}.commands") >= len(commands))
        environment.traffic.publish(name, shape, fill, 1)
        job.wait_until(lambda: job.published >= fill)
    more = 2 * sizes.batches * sizes.small_batch
    environment.traffic.publish(name, shape, more, 1, first=fill)
    with environment.job(environment.config(name, name, batch_rows=sizes.small_batch)) as job:
        job.wait_until(lambda: job.published >= more)
        job.wait_for_progress()
        seconds = [
            each["durationMs"]["triggerExecution"] / 1000
            for each in job.job.query.recentProgress
            if each["numInputRows"]
        ]
    start_s, counted = after_warm_up(job.batches, sizes.batches * sizes.small_batch)
    ended_s = counted[-1].at_s
    rate = sum(each.publishes for each in counted) / (ended_s - start_s)
    return {
        "batch_s": median(seconds[sizes.batches :]),
        **batch_parts(counted, job.progress),
        **us_per_message(job.cpu.cores(start_s, ended_s), rate),
    }


def commits(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Compare commit times by the number of earlier batches, with upkeep running."""
    pair = sizes.pair(sizes.few[2], sizes.history)
    found = commit_history.measure(environment.root / "commits", *pair, sizes.commits)
    (few, few_s), (many, many_s) = found.items()
    yield {
        "case": "commits",
        "few": few,
        "few_p50_ms": round(1000 * percentile(few_s, 0.5), 1),
        "few_p99_ms": round(1000 * percentile(few_s, 0.99), 1),
        "many": many,
        "many_p50_ms": round(1000 * percentile(many_s, 0.5), 1),
        "many_p99_ms": round(1000 * percentile(many_s, 0.99), 1),
        "ratio": round(percentile(many_s, 0.99) / percentile(few_s, 0.99), 2),
    }


def idle(environment: BenchEnvironment, sizes: Sizes) -> Iterator[Figures]:
    """Measure cores and batches of an idle job, with Kafka and the heartbeat."""
    shape = Shape(queues=10, max_length=max(1, sizes.small_batch // 20), death="length")
    environment.traffic.create_topic("idle", 1)
    environment.declare("idle", declarations(shape))
    environment.traffic.publish("idle", shape, sizes.small_batch, 1)
    config = environment.config("idle", "idle", trigger_ms=IDLE_TRIGGER_MS)
    with environment.job(config) as job:
        job.wait_until(lambda: job.published >= sizes.small_batch)
        time.sleep(SETTLE_S)  # queue_contents and upkeep follow the last batch
        before, start_s = len(job.batches), time.time()
        time.sleep(sizes.seconds)
        end_s = time.time()
    cores = job.cpu.cores(start_s, end_s)
    yield {
        "case": "idle",
        "seconds": round(end_s - start_s),
        "batches": len(job.batches) - before,
        "cores": round(sum(cores.values()), 2),
        **cores,
    }


CASES: Final[dict[str, Callable[[BenchEnvironment, Sizes], Iterator[Figures]]]] = {
    "throughput": throughput,
    "shapes": shapes,
    "consume": consume,
    "lanes": lanes,
    "settle": settle,
    "versus": versus,
    "versus_amqp": versus_amqp,
    "latency": latency,
    "resident": resident,
    "queues": queues,
    "commits": commits,
    "idle": idle,
}
