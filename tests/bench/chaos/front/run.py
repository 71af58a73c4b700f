"""Kill fronts, job and Kafka while clients work, and check what clients saw."""

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pika
from filelock import FileLock

from streaming.broker.sequence.digest import SEGMENT
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.queries.duckdb_tables import Tables
from streaming.user_folders import user_cache_folder
from tests.bench.chaos.front.checks import contradictions, read_ledger, unbalanced, waiting_at
from tests.bench.chaos.front.fronts import FrontProcess, Running, tracebacks
from tests.bench.chaos.front.journal import Entry, Journal, read_journal
from tests.bench.chaos.front.pika_client import (
    DEAD,
    FAILURES,
    WORK,
    PikaClient,
    connect,
    declare,
)
from tests.bench.chaos.front.strikes import Strikes, wait_for
from tests.bench.output import say
from tests.fixtures.go_programs import BUILD, build_environment

GO_CLIENT: Final = Path(__file__).with_name("go_client")
_BUILD_S: Final = 600
_CATCH_UP_S: Final = 600.0
_PIKA_PAUSE_S: Final = 0.02
_GO_PAUSE_S: Final = 0.004
MOST_CALM_S: Final = 8.0
_BEHIND_SEGMENT: Final = 200
"""Records behind a segment of the log, by which its digest was written."""


class FrontChaosResult(NamedTuple):
    """The outcome of a run.

    Attributes:
        kills: how often each kind was struck.
        seen: how often clients saw each kind of entry.
        redelivered: deliveries with the flag.
        waiting: messages that were published to a leader while it was asleep.
        records: of the log.
        digests: in the log, which another fold has come to.
        void: publishes that do not count.
        findings: what went wrong.
    """

    kills: Counter[str]
    seen: Counter[str]
    redelivered: int
    waiting: int
    records: int
    digests: int
    void: int
    findings: list[str]


def go_client() -> Path:
    """The client in Go, built below the cache folder.

    Raises:
        EmbeddedError: Go is missing, or cannot build it.
    """
    folder = user_cache_folder() / "front-chaos"
    folder.mkdir(parents=True, exist_ok=True)
    go = shutil.which("go")
    if go is None:
        raise EmbeddedError("go is not installed: Go 1.26 or later builds a client")
    with FileLock(folder / ".lock"):
        program = folder / "go_client"
        done = subprocess.run(
            [go, "build", *BUILD, "-o", str(program), "."],
            cwd=GO_CLIENT,
            env=build_environment(),
            check=False,
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
        )
    if done.returncode:
        raise EmbeddedError(f"the client in Go cannot be built: {done.stderr[-2000:]}")
    return program


def run_front_chaos(
    root: Path,
    kills: int,
    *,
    seed: int = 1,
    most_calm_s: float = MOST_CALM_S,
    report: Callable[[str], None] = say,
) -> FrontChaosResult:
    """Run fronts, a job and clients, strike, and check.

    Args:
        root: an empty folder.
        most_calm_s: the longest wait before a strike, once clients were confirmed something.
        report: called with lines about the progress.

    Raises:
        EmbeddedError: Kafka or the client in Go cannot be started.
        RuntimeError: something did not come back.
    """
    program = go_client()
    chances = random.Random(seed)
    root.mkdir(parents=True, exist_ok=True)
    with EmbeddedKafka(root / "kafka") as kafka:
        running = Running(root, kafka)
        try:
            return _run(running, root, program, kills, chances, most_calm_s, report)
        finally:
            running.kill()


def _run(
    running: Running,
    root: Path,
    program: Path,
    kills: int,
    chances: random.Random,
    most_calm_s: float,
    report: Callable[[str], None],
) -> FrontChaosResult:
    running.start()
    leader = wait_for(running, running.leader, "no front leads")
    with closing(opened(running, leader)) as connection:
        declare(connection.channel())
    ports = [front.port for front in running.fronts]
    journal = Journal(root / "pika.jsonl")
    client = PikaClient(ports, journal, _PIKA_PAUSE_S)

    def prove(front: FrontProcess) -> None:
        name = journal.open(front.port, "pika-witness")
        with closing(opened(running, front)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for _ in range(5):
                client.publish_one(name, channel)

    strikes = Strikes(running, chances, prove)
    files = [root / "pika.jsonl", root / "go.jsonl"]
    wait_for(running, lambda: running.job_position() > 0, "the job reads nothing")
    with _go_client_running(program, files[1], ports), client:
        for number in range(kills):
            if number % 3 != 2:  # every third one may come before things go on
                wait_for_confirms(running, files[number % 2 :][:1])
            running.pause(chances.uniform(0, most_calm_s))
            report(f"strike {number + 1} of {kills}: {strikes.strike()}")
        wait_for_confirms(running, files)
        wait_for_digest(running)
        running.pause(2)
    journal.close()
    entries = [entry for file in files for entry in read_journal(file)]
    return checked(running, strikes, entries, report)


def checked(
    running: Running, strikes: Strikes, entries: list[Entry], report: Callable[[str], None]
) -> FrontChaosResult:
    """Stop everything once the job has read the log, and compare the clients' word with the tables.

    Raises:
        RuntimeError: something does not come so far.
    """
    leader = wait_for(running, running.leader, "no front leads")
    with closing(opened(running, leader)) as connection:
        channel = connection.channel()
        ready = {
            queue: int(channel.queue_declare(queue, passive=True).method.message_count)
            for queue in (WORK, DEAD)
        }
    for front in (running.other(leader), leader):
        wait_for(running, front.follows, f"{front.name} does not begin")
        front.process.stop()
    end = running.log_end()
    report(f"the clients have ended; the job is at record {running.job_position()} of {end}")
    deadline_s = time.monotonic() + _CATCH_UP_S
    while running.job_position() < end:
        running.job.check()
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"the job stays at {running.job_position()} of {end}")
        time.sleep(0.2)
    running.job.stop()
    with closing(Tables(running.tables.url, running.tables.options)) as tables:
        ledger = read_ledger(tables)
        findings = contradictions(entries, ledger, strikes.sleeps, ready)
        findings += unbalanced(tables)
    digests, differs = _verified(running.file)
    findings += differs
    findings += [f"ended by itself: {text}" for text in running.ends]
    findings += tracebacks([running.job, *(front.process for front in running.fronts)])
    report(f"{running.too_early} starts ended because Kafka was away")
    redelivered = sum(entry.redelivered for entry in entries)
    waiting = sum(waiting_at(sleep, entries) for sleep in strikes.sleeps)
    seen = Counter(entry.kind for entry in entries)
    void = ledger.void.total()
    return FrontChaosResult(strikes.done, seen, redelivered, waiting, end, digests, void, findings)


def _verified(config: Path) -> tuple[int, list[str]]:
    """How many digests of the log another fold has come to, and where folds part."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "streaming.cli",
            "amqp",
            "verify",
            "--config",
            str(config),
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return 0, [f"dlx amqp verify: {done.stdout}{done.stderr}"]
    return int(json.loads(done.stdout)["digests"]), []


@contextmanager
def _go_client_running(program: Path, journal: Path, ports: list[int]) -> Iterator[None]:
    """Run the client in Go; it ends when its standard input does.

    Raises:
        RuntimeError: it failed.
    """
    urls = [f"amqp://guest:guest@127.0.0.1:{port}/" for port in ports]
    command = [str(program), str(journal), str(_GO_PAUSE_S), *urls]
    output = journal.with_suffix(".log")
    with output.open("ab") as log:
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield
        assert client.stdin is not None
        client.stdin.close()
        if client.wait(60):
            raise RuntimeError(f"the client in Go failed: {output.read_text()}")
    finally:
        client.kill()
        client.wait()


def wait_for_confirms(running: Running, files: list[Path]) -> None:
    """Wait until each of these clients was confirmed something more."""
    before = [_count(file, "confirmed") for file in files]

    def is_confirmed() -> bool:
        counts = [_count(file, "confirmed") for file in files]
        return all(now > then for now, then in zip(counts, before, strict=True))

    wait_for(running, is_confirmed, "a client is stuck")


def wait_for_digest(running: Running) -> None:
    """Wait until the log has a digest: however slow clients are, a run compares one."""
    enough = SEGMENT + _BEHIND_SEGMENT
    wait_for(running, lambda: running.log_end() > enough, f"the log has no {enough} records")


def _count(file: Path, kind: str) -> int:
    return file.read_bytes().count(f'"kind":"{kind}"'.encode()) if file.exists() else 0


def opened(running: Running, front: FrontProcess) -> pika.BlockingConnection:
    """A connection to a front that listens, or soon does."""

    def connection() -> pika.BlockingConnection | None:
        with suppress(*FAILURES):
            return connect(front.port)
        return None

    return wait_for(running, connection, f"the front {front.name} takes no connection")
