"""`dlx bench pipeline`: what the job does on real Kafka, Spark and Delta, on this machine.

    throughput  every message dies once: a plain copy of the same records, one lane, a lane a core,
                and the core alone (no Kafka, Spark or Delta; one process, one core)
    latency     from a consumer's reject to the row in `dead_letters`, at a steady rate
    resident    batch time with many messages in the queues against few
    queues      batch time with many active queues against few
    commits     commit time after many earlier batches against after few
    idle        cores in use, and batches, while nothing is published

What a line compares was measured in the same run. A batch's time is Spark's: from its trigger to
its end, commits and checkpoint included.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from streaming.bench import commit_history
from streaming.bench.baseline_copy import copy_rate
from streaming.bench.breakdown import batch_parts
from streaming.bench.core import plain_columns
from streaming.bench.percentiles import percentile
from streaming.bench.pipeline_load import Shape, declarations
from streaming.bench.reject_latency import reject_latencies
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor
from streaming.broker.message import Message, Publication
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.broker.vhost import VhostCache
from streaming.config.job import JobSettings
from streaming.protocol.commands import parse_command

if TYPE_CHECKING:
    from streaming.bench.pipeline_environment import Running, Stand

WARM_UP: Final = 3
"""Batches that are not counted: classes and modules are loaded, code is compiled."""

COPY_GOAL: Final = 0.45
RECORDS_PER_MS: Final = 20
SETTLE_S: Final = 10
IDLE_TRIGGER_MS: Final = JobSettings().trigger_ms
"""That of a job whose configuration does not say."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much to measure.

    Attributes:
        messages: counted in `throughput`, after the warm-up.
        batch: records a batch there.
        rate: messages a second in `latency`; seconds: how long.
        resident, queues, history: the many of `resident`, `queues` and `commits`.
        few: the few, in the same order; a tenth of the many where that is less.
        commits: how many commits are timed.
        small_batch: records a batch in `resident` and `queues`; batches: how many are counted.
    """

    messages: int = 1_000_000
    batch: int = 200_000
    rate: int = 1_000
    seconds: int = 30
    resident: int = 1_000_000
    queues: int = 10_000
    history: int = 100_000
    few: tuple[int, int, int] = (10_000, 10, 100)
    small_batch: int = 20_000
    batches: int = 15
    commits: int = 300

    def pair(self, few: int, many: int) -> tuple[int, int]:
        """What is compared."""
        return min(few, max(1, many // 10)), many


def throughput(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Messages a second with every message dying once."""
    shape = Shape(max_length=max(2 * stand.cores, min(1_000, sizes.batch // 200)))
    topic = "throughput"
    lanes_of = {f"lanes_{lanes}": lanes for lanes in sorted({1, stand.cores})}
    total = sizes.messages + WARM_UP * sizes.batch
    stand.log.make(topic, stand.cores)
    for name, lanes in lanes_of.items():
        stand.declare(name, declarations(shape), lanes)
    stand.log.publish(topic, shape, total, stand.cores)
    copied = copy_rate(stand.spark, stand.servers, topic, stand.root / "copy", sizes.batch, WARM_UP)
    yield {"case": "copy", "messages_per_s": round(copied)}
    alone = core_rate(shape, sizes.messages, min(sizes.batch, 20_000))
    yield {"case": "core", "messages_per_s": round(alone)}
    for name, lanes in lanes_of.items():
        config = stand.config(name, topic, lanes=lanes, batch_rows=sizes.batch)
        left = shape.queues * shape.max_length
        with stand.job(config) as job:
            job.until_died(total, total - left)
            batches = [done for done in job.done if done.publishes >= sizes.batch // 2]
        counted = batches[WARM_UP:]
        seconds = counted[-1].at_s - batches[WARM_UP - 1].at_s
        rate = sum(done.publishes for done in counted) / seconds
        yield {
            "case": name,
            "messages_per_s": round(rate),
            "of_copy": round(rate / copied, 2),
            "of_core": round(rate / alone, 2),
            "deaths_per_message": round(
                sum(done.deaths for done in counted) / sum(done.publishes for done in counted), 2
            ),
            "batch_s": round(seconds / len(counted), 2),
            **batch_parts(counted, job.progress),
            **job.cpu.cores(batches[WARM_UP - 1].at_s, counted[-1].at_s),
        }


def core_rate(shape: Shape, messages: int, batch: int) -> float:
    """The same work in the core alone; messages a second of the median batch."""
    store = MemoryStore()
    cache = VhostCache()
    actor = Actor(None, "pub")
    config = ShardConfig(consumer_timeout_ms=None)
    shard = Shard(config, store, cache=cache)
    for document in declarations(shape):
        shard.command(0, parse_command(document), actor)
    shard.finish()
    publications = [Publication("orders", f"w{number}", {}, None) for number in range(shape.queues)]
    seconds = []
    gc.collect()
    gc.disable()
    try:
        for first in range(0, messages, batch):
            records = [
                (offset // RECORDS_PER_MS, Message(1, 0, offset, 1, offset, 200))
                for offset in range(first, first + batch)
            ]
            started = time.perf_counter()
            shard = Shard(config, store, cache=cache)
            for at_ms, message in records:
                shard.publish(at_ms, message, publications[message.offset % shape.queues], 0, actor)
            plain_columns(shard.finish().events)
            seconds.append(time.perf_counter() - started)
    finally:
        gc.enable()
    return batch / median(seconds)


def latency(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Reject -> visible in `dead_letters`."""
    found = reject_latencies(stand, sizes.rate, sizes.seconds)
    yield {
        "case": "latency",
        "rate": sizes.rate,
        "rejects": len(found.seconds),
        "p50_ms": round(1000 * percentile(found.seconds, 0.5)),
        "p99_ms": round(1000 * percentile(found.seconds, 0.99)),
        **batch_parts(found.batches, found.progress),
        **found.cores,
    }


def resident(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Batch time by how much is in the queues that are worked on."""
    times = {}
    for count in sizes.pair(sizes.few[0], sizes.resident):
        shape = Shape(queues=10, max_length=max(1, count // 10), only_length=True)
        times[count] = _batch_parts(stand, f"resident-{count}", shape, sizes, fill=count)
    yield _compared("resident", times)


def queues(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Batch time by the number of queues that the same messages go to."""
    times = {}
    for count in sizes.pair(sizes.few[1], sizes.queues):
        shape = Shape(queues=count, max_length=1, only_length=True)
        times[count] = _batch_parts(stand, f"queues-{count}", shape, sizes, fill=count)
    yield _compared("queues", times)


def _compared(case: str, times: dict[int, dict[str, float]]) -> Figures:
    """Two batch times, their ratio, and the parts of both in milliseconds."""
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
            if name in few_parts
        },
    }


def _batch_parts(
    stand: Stand, name: str, shape: Shape, sizes: Sizes, fill: int
) -> dict[str, float]:
    """Median times of a batch of `small_batch` messages, with `fill` there before, in seconds."""
    stand.log.make(name, 1)
    stand.declare(name, declarations(shape))
    stand.log.publish(name, shape, fill, 1)
    with stand.job(stand.config(name, name, batch_rows=sizes.batch)) as job:
        job.until(lambda: job.published >= fill)
    more = (sizes.batches + WARM_UP) * sizes.small_batch
    stand.log.publish(name, shape, more, 1, first=fill)
    with stand.job(stand.config(name, name, batch_rows=sizes.small_batch)) as job:
        job.until(lambda: job.published >= more)
        stand.drain(job)
        spent = _times(job)
    counted = [done for done in job.done if done.publishes][WARM_UP:]
    return {"batch_s": median(spent[WARM_UP:]), **batch_parts(counted, job.progress)}


def _times(job: Running) -> list[float]:
    """What Spark says each batch took that read anything, seconds."""
    progress = [each for each in job.job.query.recentProgress if each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] / 1000 for each in progress]


def commits(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Commit time by how many batches came before, upkeep running beside."""
    pair = sizes.pair(sizes.few[2], sizes.history)
    found = commit_history.measure(stand.root / "commits", *pair, sizes.commits)
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


def idle(stand: Stand, sizes: Sizes) -> Iterator[Figures]:
    """Cores in use, and batches run, with nothing to do; Kafka and the heartbeat included."""
    shape = Shape(queues=10, max_length=max(1, sizes.small_batch // 20), only_length=True)
    stand.log.make("idle", 1)
    stand.declare("idle", declarations(shape))
    stand.log.publish("idle", shape, sizes.small_batch, 1)
    with stand.job(stand.config("idle", "idle", trigger_ms=IDLE_TRIGGER_MS)) as job:
        job.until(lambda: job.published >= sizes.small_batch)
        time.sleep(SETTLE_S)  # queue_contents and upkeep follow the last batch
        before, began_s = len(job.done), time.time()
        time.sleep(sizes.seconds)
        ended_s = time.time()
    cores = job.cpu.cores(began_s, ended_s)
    yield {
        "case": "idle",
        "seconds": round(ended_s - began_s),
        "batches": len(job.done) - before,
        "cores": round(sum(cores.values()), 2),
        **cores,
    }


CASES: Final[dict[str, Callable[[Stand, Sizes], Iterator[Figures]]]] = {
    "throughput": throughput,
    "latency": latency,
    "resident": resident,
    "queues": queues,
    "commits": commits,
    "idle": idle,
}
