"""`dlx bench redrive`: a redrive under load while processes are killed, checked against the tables.

    letters --> work --rejected--> graveyard --redrive--> work --> consumers: ack, reject, requeue
    publisher --------------------------------------------^

A process approves the plan and follows it, as a user would. The job, Kafka and the clients are
killed at random while letters move, and started again. Afterwards every letter has moved exactly
once, its fate is known and is what the consumers did, and the balance closes.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from streaming.client import Connection
from streaming.config import show_config
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.protocol.sealed_plan import SealedPlan
from streaming.queries import DeadLetterFilter, RedriveWish, open_tables
from streaming.queries.audit.balance import balance
from streaming.storage.location import Location
from tests.bench.load.actors import WORK, planned_outcome
from tests.bench.load.run import actor, commits, declare, job_config, keep_running
from tests.bench.processes import Process

LETTERS: Final = "letters"
"""The publisher that the bodies of the letters name."""

CONSUMERS: Final = 2
_MAX_WAIT_S: Final = 900.0
_PAUSE_S: Final = 1.0
_DOWN_S: Final = (0.0, 4.0)
_KINDS: Final = ("client", "job", "kafka")


class RedriveLoad(NamedTuple):
    """The size of a run.

    Attributes:
        letters: dead letters that the redrive moves.
        kills: how often something is killed meanwhile.
        rate: messages per second that are published meanwhile.
        seed: of the random choices.
        seconds_per_kill: how long letters move for each kill: the rate of the redrive follows.
    """

    letters: int = 10_000
    kills: int = 20
    rate: float = 100.0
    seed: int = 1
    seconds_per_kill: float = 25.0


class RedriveReport(NamedTuple):
    """The outcome of a run.

    Attributes:
        moved: letters that moved.
        acked, died: letters by their fate after that.
        kills: by what was killed.
        seconds: from the approval to the last fate.
        messages: everything that was published.
        problems: what is wrong; empty if everything is accounted for.
    """

    letters: int
    moved: int
    acked: int
    died: int
    kills: dict[str, int]
    seconds: float
    messages: int
    problems: list[str]


def run_redrive(
    root: Path, load: RedriveLoad, report: Callable[[str], None] = print
) -> RedriveReport:
    """Run the redrive and verify it.

    Args:
        root: an empty folder; logs and tables stay in it.
        report: called with lines about the progress.

    Raises:
        RuntimeError: a process ended by itself, or something was not reached in time.
    """
    with EmbeddedKafka(root / "kafka") as kafka:
        config = root / "dlx.toml"
        config.write_text(show_config(job_config(root, kafka.bootstrap_servers)))
        job = Process(root, "job", "streaming.cli", "run", "--config", str(config))
        clients = list(_clients(root, config, load))
        approver = _approver(root, config, load)
        try:
            job.start()
            _make_letters(config, load.letters)
            report(f"{load.letters} letters have died")
            plan = _plan(root / "tables", load.letters)
            (root / "plan.json").write_bytes(plan.to_json())
            for client in clients:
                client.start()
            start_s = time.monotonic()
            kills = _disturb(root / "tables", plan, job, kafka, approver, clients, load, report)
            approver.finish()
            clients[0].stop()
            report("publisher done; waiting for the last fates")

            def settled() -> bool:
                keep_running(job)
                return _is_settled(root / "tables", plan)  # other messages may still wait

            _wait(settled, "the fate of every letter")
            seconds = time.monotonic() - start_s
            for process in (*clients, job):
                process.stop()
        except BaseException:
            for process in (approver, *clients, job):
                process.kill()
            raise
    return _verified(root, plan, load, kills, seconds)


def _clients(root: Path, config: Path, load: RedriveLoad) -> Iterator[Process]:
    """The publisher, then the consumers."""
    yield actor(root, config, "publisher", 0, "--rate", str(load.rate))
    for number in range(CONSUMERS):
        yield actor(root, config, "consumer", number)


class Approver(Process):
    """`dlx redrives approve` as a process, which may fail or be killed and is repeated then."""

    @property
    def has_approved(self) -> bool:
        """Whether it has ended well; a failed one starts again."""
        if self._process is None or self._process.poll() is None:
            return False
        if self._process.returncode == 0:
            return True
        self.start()
        return False

    def finish(self) -> None:
        """Wait until the command has ended well."""
        _wait(lambda: self.has_approved, "the end of `dlx redrives approve`")


def _approver(root: Path, config: Path, load: RedriveLoad) -> Approver:
    rate = max(1, round(load.letters / max(1, load.kills * load.seconds_per_kill)))
    return Approver(
        *(root, "approve", "streaming.cli", "redrives", "approve", str(root / "plan.json")),
        *("--reason", "the service is fixed", "--count", str(load.letters)),
        *("--rate", str(rate), "--timeout", "120", "--config", str(config)),
    )


def _make_letters(config: Path, count: int) -> None:
    """Declare the topology, and let messages die in it."""
    declare(config, _MAX_WAIT_S)
    with Connection.from_config(config, timeout_s=120) as connection:
        publisher, channel = connection.publisher(), connection.channel()
        for number in range(count):
            body = json.dumps({"p": LETTERS, "n": number, "at": time.time()})
            publisher.publish("", WORK, body)
        publisher.wait_for_confirms(120)
        left = count
        while left:
            for delivery in channel.get_many(WORK, min(left, 1_000)):
                delivery.reject(requeue=False)
                left -= 1
        channel.sync()


def _plan(tables: Path, count: int) -> SealedPlan:
    """Plan the redrive of every letter, as soon as the tables have them."""
    found: list[SealedPlan] = []

    def planned() -> bool:
        with open_tables(str(tables)) as queries:
            plan = queries.plan_redrive(RedriveWish(wanted=DeadLetterFilter(queue=WORK))).sealed
        found[:] = [plan]
        return len(plan.letters) == count

    _wait(planned, f"{count} letters in the tables")
    return found[0]


def _disturb(
    tables: Path,
    plan: SealedPlan,
    job: Process,
    kafka: EmbeddedKafka,
    approver: Approver,
    clients: list[Process],
    load: RedriveLoad,
    report: Callable[[str], None],
) -> dict[str, int]:
    """Approve the plan, and kill something again and again while letters move."""
    chances = random.Random(load.seed)
    killed: Counter[str] = Counter()
    approver.start()
    since = -1
    for kill in range(load.kills):
        goal = int(load.letters * (kill + chances.uniform(0.1, 0.9)) / load.kills)

        def due(goal: int = goal, since: int = since) -> bool:
            keep_running(job)
            for process in clients:
                process.check()
            is_on = approver.has_approved or _moved(tables, plan) >= goal
            return is_on and commits(Location(str(tables))) > since  # the job works again

        if kill:  # the first one hits the approval itself
            _wait(due, f"{goal} moved letters")
        kind = _KINDS[kill % len(_KINDS)]
        victims: dict[str, EmbeddedKafka | Process] = {"job": job, "kafka": kafka}
        victim = victims.get(kind, approver)
        if victim is approver and kill % 2:
            victim = chances.choice(clients)
        if victim is approver:
            time.sleep(chances.uniform(0.5, 3.0))
        killed[kind] += 1
        name = victim.name if isinstance(victim, Process) else kind
        report(f"kill {kill + 1} of {load.kills}: {name}, {_moved(tables, plan)} letters moved")
        victim.kill()
        time.sleep(chances.uniform(*_DOWN_S))
        victim.start()
        since = commits(Location(str(tables)))
    return dict(killed)


def _moved(tables: Path, plan: SealedPlan) -> int:
    with open_tables(str(tables)) as queries:
        rows = [row for row in queries.redrives() if row["id"] == plan.id]
    return int(rows[0]["moved"]) if rows else 0


def _is_settled(tables: Path, plan: SealedPlan) -> bool:
    with open_tables(str(tables)) as queries:
        rows = [row for row in queries.redrives() if row["id"] == plan.id]
    return bool(rows) and rows[0]["status"] == "finished" and not rows[0]["waiting"]


def _wait(reached: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _MAX_WAIT_S
    while not reached():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{what}: not within {_MAX_WAIT_S:g} s")
        time.sleep(_PAUSE_S)


def _verified(
    root: Path, plan: SealedPlan, load: RedriveLoad, kills: dict[str, int], seconds: float
) -> RedriveReport:
    """Compare the tables with the plan, and with what the consumers do with each letter."""
    problems = []
    with open_tables(str(root / "tables")) as queries:
        tables = queries.tables
        outcome = queries.redrive(plan.id)
        sheet = balance(tables)
        tables.view("events", columns=["kind", "copy_id"], view="moves")
        moves = Counter(
            copy_id
            for (copy_id,) in tables.values("SELECT copy_id FROM moves WHERE kind = 'redriven'")
        )
        tables.view("messages", columns=["topic_number", "partition", "offset", "body"])
        bodies = {
            f"{topic}/{partition}/{offset}": json.loads(body)
            for topic, partition, offset, body in tables.values(
                'SELECT topic_number, "partition", "offset", body FROM messages'
            )
        }
    sealed = {letter.copy_id for letter in plan.letters}
    if set(moves) != sealed:
        problems.append(f"{len(sealed ^ set(moves))} copies were moved or sealed, but not both")
    twice = [copy_id for copy_id, times in moves.items() if times > 1]
    if twice:
        problems.append(f"{len(twice)} letters moved more than once")
    for letter in outcome.letters:
        body = bodies[letter["message_id"]]
        rejects = planned_outcome(body["p"], body["n"]) == "reject"
        if letter["fate"] != ("died" if rejects else "acked"):
            problems.append(f"letter {letter['message_id']} is {letter['fate']}: {letter}")
    if sheet.unexplained:
        problems.append(f"the balance has {sheet.unexplained} unexplained: {sheet.findings[:3]}")
    fates = Counter(letter["fate"] for letter in outcome.letters)
    if fates["acked"] + fates["died"] != load.letters:
        problems.append(f"of {load.letters} letters, the fates are {dict(fates)}")
    return RedriveReport(
        letters=load.letters,
        moved=sum(moves.values()),
        acked=fates["acked"],
        died=fates["died"],
        kills=kills,
        seconds=round(seconds),
        messages=len(bodies),
        problems=problems,
    )
