"""A real Apache Kafka as a child process: one KRaft node on the loopback interface.

    DIRECTORY/data               topics; a restart in the same directory resumes with them
    DIRECTORY/ports.json         the ports of the last start, reused if they are free
    DIRECTORY/broker.properties  the broker's configuration
    LOGS/kafka.log               its log, rolled by size
    LOGS/kafka.out               output of its JVM since the last start

    stopped --start()--> running --stop(), kill() or a crash--> stopped

It ends with this process, however this process ends (`supervisor.py`). Ctrl-C in a terminal does
not reach it.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streaming.embedded.child import STOP_GRACE_S, Child, interrupts_deferred, start_child
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import Java, find_java, properties_text
from streaming.embedded.kafka.broker_properties import (
    BrokerLimits,
    broker_options,
    broker_properties,
    java_command,
)
from streaming.embedded.kafka.data_folder import cluster_id_of, format_storage, take_directory
from streaming.embedded.kafka.ports import LOOPBACK, Ports, choose_ports

if TYPE_CHECKING:
    from rich.console import Console
import re

START_TIMEOUT_S = 120.0
KILL_MARGIN_S = 5.0
POLL_S = 0.02
CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0
PORT_ATTEMPTS = 3

SHOWN_LINES = 4
READ_BYTES = 1_000_000
_FAULT = re.compile(r" (ERROR|FATAL) |^Exception in|^Caused by|^Error")


class BrokerLog:
    """The logs of one broker.

    Attributes:
        file: Kafka's log; appended to, and rolled by size.
        output: output of the JVM; overwritten at each start.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "kafka.log"
        self.output = directory / "kafka.out"
        self._begin_bytes = 0

    def begin(self) -> None:
        """Remember where the log of this start begins."""
        self._begin_bytes = self.file.stat().st_size if self.file.exists() else 0

    def since_begin(self) -> str:
        """The log and output since this start, or its last part."""
        return self._tail(self.file, self._begin_bytes) + self._tail(self.output, 0)

    def says_port_taken(self) -> bool:
        """Whether the broker ended because a port was in use."""
        return "Address already in use" in self.since_begin()

    def explain_end(self, status: int, directory: Path) -> str:
        """Why the broker ended with this exit status during its start, and what to do."""
        said = self.since_begin()
        if self.says_port_taken():
            remedy = "Its port is in use by another program: stop that program or choose a port."
        elif re.search("OutOfMemoryError|Could not reserve enough space|insufficient memory", said):
            remedy = "It has too little memory: increase heap_mb, or free some memory."
        elif "No space left on device" in said:
            remedy = f"The disk of {directory} is full: free some space."
        else:
            remedy = (
                f"If its data in {directory} is damaged, move the directory away to start with an "
                "empty Kafka, or choose another one."
            )
        lines = said.splitlines()
        faults = [line for line in lines if _FAULT.search(line)] or lines[-2:]
        shown = "\n".join(f"  {line[:300]}" for line in faults[:SHOWN_LINES])
        return (
            f"Kafka ended during its start (exit status {status}).\n{shown}\n{remedy} Its log is "
            f"{self.file}, and the output of its JVM is {self.output}."
        )

    @staticmethod
    def _tail(path: Path, begin_bytes: int) -> str:
        try:
            with path.open("rb") as opened:
                size = opened.seek(0, 2)
                # Smaller than before: the log was rolled, so all of it is new.
                begin = begin_bytes if begin_bytes <= size else 0
                opened.seek(max(begin, size - READ_BYTES))
                return opened.read().decode(errors="replace")
        except FileNotFoundError:
            return ""


class EmbeddedKafka:
    """One Kafka broker in its own directory; use it as a context manager, or start and stop it.

    Any thread may use it, one at a time.

    Attributes:
        directory: absolute.
        cluster_id: Kafka's id of its data; None before the first start, unless it was given.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        limits: BrokerLimits | None = None,
        cluster_id: str | None = None,
        log_dir: Path | None = None,
        cache_dir: Path | None = None,
        progress: "Console | None" = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Configure a broker; nothing is started or written.

        Args:
            directory: holds the data; created if missing.
            port: the port for clients; by default that of the last start, else any free one.
            cluster_id: the id with which to format the storage; by default a new one.
            log_dir: folder of the logs; by default `directory/logs`.
            environment: variables in which JAVA_HOME and PATH are looked up.
        """
        self.directory = directory.absolute()
        self.cluster_id = cluster_id
        self._limits = limits or BrokerLimits()
        self._log = BrokerLog((log_dir or directory / "logs").absolute())
        self._port = port
        self._cache_dir = cache_dir
        self._progress = progress
        self._environment = environment
        self._running: Child | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port`, known after the first start; it never changes afterwards."""
        assert self._port is not None, "the broker was never started"
        return f"{LOOPBACK}:{self._port}"

    @property
    def log_file(self) -> Path:
        """The broker's log."""
        return self._log.file

    @property
    def is_running(self) -> bool:
        """Whether the broker's process runs."""
        return self._running is not None and self._running.status() is None

    @property
    def pid(self) -> int | None:
        """The process id of the broker's JVM, if it runs."""
        return self._running.pid if self._running and self.is_running else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker and wait until it answers; do nothing if it runs.

        The first start in a directory formats its storage. If a broker left by a killed process is
        still ending, wait for it.

        Raises:
            EmbeddedError: no Java, no jars, port taken, damaged data, directory in use, or the
                broker ended or did not answer; nothing keeps running.
        """
        if self.is_running:
            return
        self._reap()
        java = find_java(self._environment)
        jars = resolve_jars("kafka", self._cache_dir, self._progress)
        lock = take_directory(self.directory, self._log.directory, STOP_GRACE_S + KILL_MARGIN_S)
        try:
            data_dir = self.directory / "data"
            self.cluster_id = cluster_id_of(data_dir) or format_storage(
                data_dir, java, jars, self._limits, self.cluster_id
            )
            self._start_on_a_port(java, jars, lock)
        finally:
            os.close(lock)  # the supervisor has a copy

    def stop(self) -> None:
        """Stop the broker cleanly, or kill it after 20 s. Do nothing if it does not run."""
        if self._running is not None:
            self._running.request_stop()
        self._reap()

    def kill(self) -> None:
        """Kill the broker like a crash (SIGKILL). Do nothing if it does not run."""
        if self._running is not None:
            self._running.request_kill()
        self._reap()

    def restart(self) -> None:
        """Stop cleanly if it runs, then start with the same data on the same port."""
        self.stop()
        self.start()

    def _reap(self) -> None:
        """Wait for the end of a broker that was stopped or has ended, and forget it."""
        running, self._running = self._running, None
        if running is not None:
            running.wait()

    def _start_on_a_port(self, java: Java, jars: list[Path], lock: int) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            ports = choose_ports(self.directory / "ports.json", self._port)
            try:
                self._launch(java, jars, lock, ports)
            except EmbeddedError:
                # Another program took a port after the check; retry if any port will do.
                may_move = self._port is None and self._log.says_port_taken()
                if attempt == PORT_ATTEMPTS or not may_move:
                    raise
            else:
                self._port = ports.port
                return

    def _launch(self, java: Java, jars: list[Path], lock: int, ports: Ports) -> None:
        """Start the supervisor, which starts the broker, and wait until the broker answers."""
        configuration = self.directory / "broker.properties"
        properties = broker_properties(self._limits, ports, self.directory / "data")
        configuration.write_text(properties_text(properties), "utf-8")
        self._log.begin()
        options = broker_options(self._limits, self._log.file)
        command = java_command(java, jars, "kafka.Kafka", str(configuration), options=options)
        try:
            with interrupts_deferred():
                self._running = start_child(
                    command, self._log.output, cwd=self.directory, pass_fds=(lock,)
                )
            self._wait_until_ready(f"{LOOPBACK}:{ports.port}")
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, address: str) -> None:
        assert self.cluster_id is not None
        assert self._running is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answers_as(self.cluster_id, address):
            status = self._running.status()
            if status is not None:
                raise EmbeddedError(self._log.explain_end(status, self.directory))
            if time.monotonic() > deadline_s:
                raise EmbeddedError(
                    f"Kafka did not answer on {address} within {START_TIMEOUT_S:.0f} s. Its log is "
                    f"{self._log.file}."
                )
            time.sleep(POLL_S)


def answers_as(cluster_id: str, bootstrap_servers: str) -> bool:
    """Whether a cluster of that id answers a metadata request and lists a broker.

    A broker is listed once the controller has unfenced it; from then on topics can be created.
    """
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        # Try a plain connection first: librdkafka would wait and log at each refusal.
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        metadata = client.list_topics(timeout=ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return str(metadata.cluster_id) == cluster_id and bool(metadata.brokers)
