"""The demo from start to end: a real Kafka, the job, its traffic, and the report.

    DIR/kafka, DIR/checkpoints, DIR/tables/<name>, DIR/logs, DIR/dlx.toml, DIR/shop.json
    of a cluster: DIR/spark, and DIR/store/dlx with copies of checkpoints and tables

    start Kafka, Spark and the AMQP front --> first batch
        --> traffic for N seconds, with a bad deploy
        --> no more publishes --> its dead letters are found, sent back and acknowledged
        --> all input committed --> stop the front and the job --> report --> stop Kafka

The shop is in a vhost of its own, which belongs to AMQP clients. The vhost `/` beside it is for
clients of the wire format and for commands such as `dlx publish`.

A run in the same directory continues where the last one stopped.
"""

import json
import logging
import math
import os
import shlex
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

import attrs
from rich.console import Console

from streaming.client.address import address_of
from streaming.config import (
    JobConfig,
    JobSettings,
    KafkaSettings,
    TablesSettings,
    VhostSettings,
    show_config,
)
from streaming.demo import report
from streaming.demo.amqp_shop import AmqpShop
from streaming.demo.browser import console
from streaming.demo.errors import DemoError
from streaming.demo.front import DemoFront
from streaming.demo.job_observer import JobObserver
from streaming.demo.order_process import BAD_RELEASE, DEFINITIONS, REPAIRED_RELEASE, VHOST, WORKED
from streaming.demo.screen import Screen, ScreenState, say
from streaming.demo.steps import Step
from streaming.demo.story import (
    DEPLOYED_AT,
    MIN_POISONED,
    REPAIRED_AT,
    Story,
    enter_was_pressed,
)
from streaming.demo.traffic import Traffic
from streaming.embedded.cluster import LocalCluster
from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.ports import LOOPBACK
from streaming.job_locations import tables_place
from streaming.pipeline.job import Job
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from streaming.storage.location import Location
from streaming.user_folders import CONFIG_NAME, remember_demo

_CHECKOUT: Final = Path(__file__).resolve().parents[2]

SHUFFLE_PARTITIONS: Final = 2
"""Independent of the number of cores: another machine may continue the directory."""

LOOK_EVERY_S: Final = 0.5
QUIET_S: Final = 1.5
SOON_MS: Final = 5_000
"""The demo waits for timers that are due within this time: the last retries."""

FINISH_TIMEOUT_S: Final = 30.0
SETTLE_TIMEOUT_S: Final = 120.0


DEFINITIONS_NAME: Final = "shop.json"


def job_config(
    directory: Path, bootstrap_servers: str, definitions: Path | None = None
) -> JobConfig:
    """The configuration of the demo's job.

    Args:
        definitions: of the shop; by default a file in the directory.
    """
    job = JobSettings(
        checkpoint_location=str(directory / "checkpoints"),
        tables_location=str(directory / "tables"),
        log_dir=str(directory / "logs"),
        shuffle_partitions=SHUFFLE_PARTITIONS,
        driver_memory="1g",
    )
    return JobConfig(
        job=job,
        kafka=KafkaSettings(bootstrap_servers=(bootstrap_servers,)),
        tables=TablesSettings(contents_lag_ms=1_000, search=("body:$.order",)),
        vhosts={
            "/": VhostSettings(),
            VHOST: VhostSettings(
                sequenced=True, definitions=str(definitions or directory / DEFINITIONS_NAME)
            ),
        },
    )


def refuse_earlier(directory: Path) -> None:
    """Refuse the directory of a demo whose shop did not speak AMQP.

    Raises:
        DemoError: it is one.
    """
    file = directory / CONFIG_NAME
    if file.exists() and VHOST not in tomllib.loads(file.read_text("utf-8")).get("vhosts", {}):
        raise DemoError(
            f"--dir: {directory} has a demo of an earlier version, whose shop did not speak AMQP. "
            f"Choose another directory, or remove it: dlx reset --config {shlex.quote(str(file))}"
        )


def messages_so_far(tables: Tables) -> int:
    """How many messages earlier runs published: at least one for each of their orders."""
    if not tables.has("messages"):
        return 0
    view = tables.view("messages", columns=["batch_id"], view=tables.new_name("messages"))
    [(count,)] = tables.values(f"SELECT count(*) FROM {view}")  # noqa: S608 (our own name)
    return int(count)


def own_program() -> Path:
    """The `dlx` that a user has: that of the checkout, or the one beside an installed Python."""
    own = _CHECKOUT / "dlx"
    return own if own.is_file() else Path(sys.executable).with_name("dlx")


class Running(NamedTuple):
    """What runs during the traffic."""

    job: Job
    traffic: Traffic
    observer: JobObserver
    view: Screen

    def lag(self) -> int | None:
        """Records that the job has not committed; None if Kafka is away."""
        return self.observer.lag_records(self.job)


class Show:
    """One run of the demo.

    Args:
        directory: absolute path for all of its files.
        seconds: duration of the traffic, from the first committed batch.
        with_cluster: whether a Spark cluster of child processes runs the job's tasks.
        with_console: whether to serve the console, if its packages are installed.
        pauses: the steps of the story before which it waits for Enter.
        keep: whether Kafka and the job run until interrupted after the report.
        progress: for progress bars while jars are downloaded.
    """

    def __init__(
        self,
        directory: Path,
        seconds: float,
        *,
        keep: bool,
        console: Console,
        progress: Console,
        pauses: frozenset[Step] = frozenset(),
        with_cluster: bool = False,
        with_console: bool = False,
    ) -> None:
        self._directory = directory
        self._folder = directory / "tables"
        self._tables = Location(str(self._folder))
        self._seconds = seconds
        self._keep = keep
        self._console = console
        self._progress = progress
        self._with_cluster = with_cluster
        self._with_console = with_console
        self._link = ""
        self._phase = "the shop is open"
        self._story = Story(directory / CONFIG_NAME, console, pauses)

    def run(self) -> bool:
        """Run the demo; whether the balance is closed.

        Raises:
            DlxError: something could not be started, or failed.
            KeyboardInterrupt: interrupted; nothing is left running.
        """
        refuse_earlier(self._directory)
        with ExitStack() as stack, ExitStack() as stream:
            kafka = self._start_kafka(stack)
            config = job_config(self._directory, kafka.bootstrap_servers)
            if self._with_cluster:
                config = self._start_cluster(stack, config)
            file = self._directory / CONFIG_NAME
            (self._directory / DEFINITIONS_NAME).write_text(json.dumps(DEFINITIONS), "utf-8")
            file.write_text(show_config(config), "utf-8")
            with suppress(OSError):  # commands then need --config
                remember_demo(file)
            address = address_of(config)
            log = config.log_topics()[VHOST]
            observer = JobObserver(address, log)
            stack.callback(observer.close)
            with closing(self._open()) as tables:
                observer.load_queues(tables)
                first_order = messages_so_far(tables)
            job = Job(config, observer.batch_done)
            stream.callback(job.stop)
            say(self._console, "starting Spark ...", "dim")
            job.start()
            if self._with_console:
                stack.enter_context(console(self._tables, file, self._show_link))
            url = self._start_front(stream, file)
            shop = AmqpShop(url, first_order)
            traffic = Traffic(shop)
            stream.callback(traffic.stop)
            view = Screen(self._console)
            stream.callback(view.close)
            self.play(Running(job, traffic, observer, view))
            view.close()
            if not self._keep:
                stream.close()
                if self._with_cluster:  # the store ends too; its copy is for queries
                    file.write_text(show_config(self._on_copy(config)), "utf-8")
            closed = self._report(url)
            if self._keep:
                self._stay(kafka, url, job)
        return closed

    def _show_link(self, link: str) -> None:
        self._link = link
        say(self._console, f"console: {link}", "bold")

    def _start_kafka(self, stack: ExitStack) -> EmbeddedKafka:
        """Start Kafka, which `stack` stops."""
        say(self._console, f"everything is kept in {self._directory}")
        self._log_to_file()
        resolve_jars("kafka", progress=self._progress)
        resolve_jars("spark", progress=self._progress)
        kafka = EmbeddedKafka(
            self._directory / "kafka", log_dir=self._directory / "logs", progress=self._progress
        )
        stack.callback(kafka.stop)
        say(self._console, "starting Kafka ...", "dim")
        kafka.start()
        say(self._console, f"Kafka listens on {kafka.bootstrap_servers}")
        return kafka

    def _start_front(self, stream: ExitStack, config: Path) -> str:
        """Start the AMQP front, which `stream` stops; return the URL of the shop's vhost."""
        say(self._console, "starting the AMQP front ...", "dim")
        front = DemoFront(config, self._directory / "logs" / "amqp.log")
        stream.callback(front.stop)
        url = f"amqp://guest:guest@{LOOPBACK}:{front.start()}/{VHOST}"
        say(self._console, f"RabbitMQ's clients connect to {url}; the shop does, with pika")
        return url

    def _start_cluster(self, stack: ExitStack, config: JobConfig) -> JobConfig:
        """Start a cluster, which `stack` stops; return the configuration of the job on it."""
        say(self._console, "starting an object store, a Spark master and two workers ...", "dim")
        cluster = LocalCluster(self._directory, log_dir=self._directory / "logs", keeps=True)
        stack.enter_context(cluster)
        config = cluster.config(config)
        self._folder = cluster.tables
        self._tables = tables_place(config, os.environ)
        say(self._console, f"Spark's master is {cluster.spark.master}")
        words = f"tables and checkpoint are in an S3-compatible store at {cluster.store.endpoint}"
        say(self._console, words)
        return config

    def _on_copy(self, config: JobConfig) -> JobConfig:
        """The configuration of a job on the copy of the store."""
        local = job_config(
            self._folder.parent,
            config.kafka.bootstrap_servers[0],
            self._directory / DEFINITIONS_NAME,
        )
        return attrs.evolve(local, job=attrs.evolve(local.job, log_dir=config.job.log_dir))

    def _open(self) -> Tables:
        return Tables(self._tables.url, self._tables.options)

    def _log_to_file(self) -> None:
        """Write the log of the job and its libraries to a file, and keep it off the terminal.

        This includes Python's root logger: py4j logs every call that Ctrl-C interrupts.
        """
        logs = self._directory / "logs"
        try:
            logs.mkdir(parents=True, exist_ok=True)
            handler = logging.FileHandler(logs / "dlx.log", encoding="utf-8")
        except OSError as failure:
            raise DemoError(
                f"--dir: {failure.strerror} ({failure.filename}). Grant write access there, or "
                "choose another directory."
            ) from failure
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("streaming")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logging.getLogger().addHandler(handler)

    def play(self, running: Running) -> None:
        """Run the traffic, tell the story, and wait until all input is committed.

        Raises:
            DemoError: the traffic failed, or the job does not catch up.
        """
        observer, traffic = running.observer, running.traffic

        def has_passed(share: float) -> bool:
            first_s = observer.first_batch_s
            return first_s is not None and time.monotonic() - first_s >= self._seconds * share

        def invoices(decision: str) -> int:
            return traffic.counters.snapshot().get(f"invoices {decision}ed", 0)

        def work_is_done() -> bool:
            return not observer.depths.by_queue().keys() & set(WORKED) and running.lag() == 0

        def all_is_committed() -> bool:
            due_ms = observer.next_deadline_ms - time.time_ns() // 1_000_000
            is_quiet = time.monotonic() - observer.last_batch_s >= QUIET_S
            return is_quiet and due_ms > SOON_MS and running.lag() == 0

        story = self._story
        self._show_until(lambda: observer.batches > 0, running)
        traffic.start()  # the front would take it earlier, and the job begin with a backlog
        self._show_until(lambda: has_passed(DEPLOYED_AT) and invoices("ack") > 0, running)
        self._pause(Step.deploy, running)
        story.deploy(Step.deploy, BAD_RELEASE, "round amounts to cents")
        traffic.deploy(BAD_RELEASE)
        self._phase = f"the shop is open, release {BAD_RELEASE} is deployed"
        self._show_until(
            lambda: has_passed(REPAIRED_AT) and observer.failed >= MIN_POISONED,
            running,
            self._seconds + FINISH_TIMEOUT_S,
        )
        self._pause(Step.repair, running)
        story.deploy(Step.repair, REPAIRED_RELEASE, "yen have no cents")
        traffic.deploy(REPAIRED_RELEASE)
        self._phase = f"the shop is open, release {REPAIRED_RELEASE} is deployed"
        self._show_until(lambda: has_passed(1), running)
        traffic.close_shop()
        self._phase = "the shop is closed"
        self._show_until(work_is_done, running, FINISH_TIMEOUT_S)
        self._tell(running)
        self._show_until(work_is_done, running, FINISH_TIMEOUT_S)
        traffic.stop()
        self._phase = "waiting for the last messages"
        if not self._show_until(all_is_committed, running, SETTLE_TIMEOUT_S):
            lag = running.lag()
            raise DemoError(
                f"the job did not catch up within {SETTLE_TIMEOUT_S:.0f} s: Kafka still has "
                f"{'unread' if lag is None else lag} records for it. Start the demo again with the "
                f"same directory to continue; Spark's log is in {self._directory / 'logs'}."
            )

    def _tell(self, running: Running) -> None:
        """Ask what died and what was there before, send it back, and follow it to the end."""
        story, tables = self._story, self._tables
        self._pause(Step.cause, running)
        running.view.close()
        if story.cause():
            self._pause(Step.before, running)
            story.before()
            self._pause(Step.redrive, running)
            redrive_id = story.redrive()
            if redrive_id is not None:
                self._phase = "sent back: waiting for the acknowledgements"
                self._show_until(
                    lambda: story.is_settled(tables, redrive_id), running, FINISH_TIMEOUT_S
                )
                running.view.close()
                story.outcome(tables, redrive_id)
        self._pause(Step.report, running)

    def _pause(self, step: Step, running: Running) -> None:
        """Wait for Enter if the user asked for it; messages keep flowing."""
        if self._story.pauses_at(step):
            running.view.close()
            self._story.ask(step)
            self._show_until(enter_was_pressed, running)
            running.view.close()

    def _show_until(
        self, is_over: Callable[[], bool], running: Running, timeout_s: float = math.inf
    ) -> bool:
        """Process batches and show the state until a condition holds; False after the timeout."""
        job, observer = running.job, running.observer
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            observer.arrived.wait(LOOK_EVERY_S)
            running.traffic.raise_failure()
            if job.wait(0.01):
                raise DemoError(f"the job stopped unexpectedly; see {self._directory / 'logs'}")
            observer.process_batches(job)
            now_s = time.monotonic()
            running.view.show(self._state(running, now_s), now_s)
            if is_over():
                return True
        return False

    def _state(self, running: Running, now_s: float) -> ScreenState:
        observer = running.observer
        first_s = observer.first_batch_s
        return ScreenState(
            elapsed_s=None if first_s is None else now_s - first_s,
            total_s=self._seconds,
            phase=self._phase if running.traffic.opened.is_set() else "starting",
            batches=observer.batches,
            batch_s=observer.batch_s,
            lag_records=running.lag(),
            traffic=running.traffic.counters.snapshot(),
            depths=observer.depths.by_queue(),
            deaths=observer.depths.deaths,
            died_in=observer.depths.died_in,
            gate_open=running.job.gate_state.open,
            failed_at=observer.failed_at,
            console_link=self._link,
        )

    def _report(self, url: str) -> bool:
        with closing(self._open()) as tables:
            rows = report.histories(tables)
            self._section("Dead letters, by queue and reason", report.summary_lines(tables))
            self._section("Some of them, with their history (x-death)", report.history_lines(rows))
            drawn = balance(tables)
            self._section("Balance of all messages in the tables", report.balance_lines(drawn))
        self._section("Where everything is", report.place_lines(self._directory, self._folder))
        program = own_program()
        queries = report.query_lines(self._directory, self._folder, program, rows)
        self._section("Query the dead letters", queries)
        self._section(
            "Try next",
            self._story.next_lines(
                program, url if self._keep else None, in_cluster=self._with_cluster
            ),
        )
        return drawn.unexplained == 0

    def _section(self, title: str, lines: Iterable[str]) -> None:
        say(self._console, f"\n{title}", "bold")
        for line in lines:
            say(self._console, f"  {line}")

    def _stay(self, kafka: EmbeddedKafka, url: str, job: Job) -> None:
        """Keep everything running; Ctrl-C is then a successful end."""
        words = (
            f"\nKafka ({kafka.bootstrap_servers}), the AMQP front ({url}) and the job keep running"
        )
        say(self._console, f"{words}; Ctrl-C stops them.", "bold")
        try:
            while not job.wait(0.5):
                pass
        except KeyboardInterrupt:
            return
        raise DemoError(f"the job stopped unexpectedly; see {self._directory / 'logs'}")
