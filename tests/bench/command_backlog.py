"""How a job works off commands that waited while it was away: in bounded batches and memory.

    python -m tests.bench.command_backlog [--commands 1000000]

The log has a queue's declaration, one message in 100 commands, and otherwise gets with automatic
acknowledgement, each with an answer. The job starts when all of it is there. The exit status is 1
if a batch read more commands than `job.max_batch_rows`, or if an answer is missing.
"""

import argparse
import json
import re
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import psutil

from streaming.config import show_config
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.pipeline.topics.admin import KafkaTopics
from streaming.protocol.record_headers import EXCHANGE, KIND, ROUTING_KEY
from tests.bench.kafka_log import KafkaLog, whole_topic
from tests.bench.load.run import job_config
from tests.bench.output import say
from tests.bench.processes import Process, family, part_of

QUEUE: Final = "work"
PUBLISH_EVERY: Final = 100
WAIT_S: Final = 3_600
SAMPLE_S: Final = 1.0


def write_backlog(servers: str, topic: str, commands: int) -> None:
    """Write the declaration of a queue, and so many commands with some publishes among them."""
    log = KafkaLog(servers)
    log.command(topic, {"op": "declare_queue", "queue": {"name": QUEUE}, "reply_id": "d"})
    get = {"op": "get", "queue": QUEUE, "count": 1, "auto_ack": True, "channel": "poller"}
    for number in range(commands - 1):
        if number % PUBLISH_EVERY == 0:
            log.send(topic, b"%d" % number, [(EXCHANGE, b""), (ROUTING_KEY, QUEUE.encode())])
        log.command(topic, {**get, "reply_id": str(number)})
    log.flush()


def batches_of(log: Path) -> list[dict[str, Any]]:
    """The batches that a job has logged."""
    found = re.findall(r'(\{"event": "batch".*\})$', log.read_text(errors="replace"), re.MULTILINE)
    return [json.loads(line) for line in found]


def read_by(batch: dict[str, Any]) -> int:
    """How many records a batch has read."""
    return int(batch["records"] + batch["quarantined"])


class Memory:
    """The greatest memory of each part of a job."""

    def __init__(self, job: Process) -> None:
        self.most_mb: dict[str, float] = defaultdict(float)
        self._job = job
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            now: dict[str, float] = defaultdict(float)
            for process in family(self._job.pid):
                try:
                    part = part_of(process, self._job.pid, {})
                    now[part] += process.memory_info().rss / 2**20
                except psutil.NoSuchProcess:
                    continue
            for part, used_mb in now.items():
                self.most_mb[part] = max(self.most_mb[part], used_mb)

    def end(self) -> dict[str, int]:
        """The figures, in MB by part."""
        self._ended.set()
        self._thread.join()
        return {f"{part}_mb": round(used_mb) for part, used_mb in sorted(self.most_mb.items())}


def count_answers(servers: str, topic: str) -> int:
    """The answers in a topic."""
    consumer = whole_topic(servers, topic)
    found, waited_s = 0, 0.0
    while waited_s < 10:
        messages = consumer.consume(10_000, 1.0)
        waited_s = 0.0 if messages else waited_s + 1.0
        found += sum((KIND, b"answer") in (message.headers() or []) for message in messages)
    consumer.close()
    return found


def run(root: Path, commands: int) -> list[str]:
    """Run the benchmark in an empty folder; return what is wrong."""
    with EmbeddedKafka(root / "kafka") as kafka:
        servers = kafka.bootstrap_servers
        config = job_config(root, servers)
        KafkaTopics(config, {"bootstrap.servers": servers}).prepare()
        [topic] = [each.topic for each in config.inputs if each.source == "commands"]
        write_backlog(servers, topic, commands)
        records = commands + -(-(commands - 1) // PUBLISH_EVERY)
        say(f"{records} records are waiting")
        file = root / "dlx.toml"
        file.write_text(show_config(config))
        job = Process(root, "job", "streaming.cli", "run", "--config", str(file))
        started_s = time.monotonic()
        job.start()
        memory = Memory(job)
        try:
            while sum(map(read_by, batches_of(job.log))) < records:
                job.check()
                if time.monotonic() - started_s > WAIT_S:
                    raise RuntimeError(f"not read within {WAIT_S} s:\n{job.log_end()}")
                time.sleep(SAMPLE_S)
            seconds = time.monotonic() - started_s
            figures = memory.end()
            job.stop()
        finally:
            job.kill()
        batches = [each for each in batches_of(job.log) if read_by(each)]
        sizes = [read_by(each) for each in batches]
        longest_s = max(each["seconds"]["batch"] for each in batches)
        shown = {
            "seconds": round(seconds),
            "batches": len(sizes),
            "most_records": max(sizes),
            "longest_batch_s": round(longest_s, 1),
            **figures,
        }
        say("  ".join(f"{name} {value}" for name, value in shown.items()))
        say(f"records of the batches: {sizes}")
        answers = count_answers(servers, config.outbound_topics()["/", "guest"])
    found = []
    if max(sizes) > config.job.max_batch_rows:
        found.append(f"a batch read {max(sizes)} records")
    if answers != commands:
        found.append(f"{commands} commands, but {answers} answers")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=1_000_000)
    commands = parser.parse_args().commands
    with tempfile.TemporaryDirectory(prefix="dlx-commands-") as root:
        found = run(Path(root), commands)
    for line in found:
        say(f"wrong: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
