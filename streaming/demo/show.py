"""The demo from start to end: a real Kafka, the job, its traffic, and the report.

    DIR/kafka, DIR/checkpoints, DIR/tables/<name>, DIR/logs, DIR/dlx.toml, DIR/shop.json
    of a cluster: DIR/spark, and DIR/store/dlx with copies of checkpoints and tables

    start Kafka, Spark and the AMQP front --> the shop's hours (`shop_hours.py`)
        --> stop the front and the job --> report --> stop Kafka

The shop is in a vhost of its own, which belongs to AMQP clients. The vhost `/` beside it is for
clients of the wire format and for commands such as `dlx publish`.

A run in the same directory continues where the last one stopped.
"""

import json
import logging
import os
import shlex
import sys
import tomllib
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

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
from streaming.demo.order_process import DEFINITIONS, VHOST
from streaming.demo.screen import Screen, say
from streaming.demo.shop_hours import ShopHours
from streaming.demo.steps import Step
from streaming.demo.story import Story
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
            logs = self._directory / "logs"
            hours = ShopHours(
                *(job, traffic, observer, view, self._story, self._tables),
                logs,
                self._seconds,
                self._link,
            )
            hours.play()
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
