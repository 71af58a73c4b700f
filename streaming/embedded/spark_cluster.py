"""A Spark standalone cluster as child processes: a master and workers on the loopback interface.

    DIRECTORY/worker-N    the folders of the worker's applications
    LOGS/master.out       output of the master's JVM since its start
    LOGS/worker-N.out     output of a worker's JVM

It ends with this process, however this process ends; workers end their executors.
"""

import os
import socket
import time
from pathlib import Path
from typing import Final, Self

import pyspark

from streaming.embedded.child import Child, interrupts_deferred, start_child
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.java import find_java, spark_java_home
from streaming.embedded.kafka.ports import LOOPBACK, free_port

START_TIMEOUT_S: Final = 60.0
CONNECT_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.05
GRACE_S: Final = 10.0
SHOWN_LINES: Final = 4
DEPLOY: Final = "org.apache.spark.deploy"
DAEMON_OPTIONS: Final = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
    "-Dspark.deploy.maxExecutorRetries=-1",  # ten lost executors would end the application
)
"""A master and a worker only start and watch other processes."""

_OFFER: Final = ("--cores", "1", "--memory", "1g")
"""What each worker offers."""

SCALA_VERSION: Final = "2.13"
"""Of pyspark's jars. Otherwise a worker looks for the folders of a build of Spark."""


class SparkCluster:
    """A master and some workers; use it as a context manager, or start and stop it.

    Args:
        directory: folder of the workers.
        workers: number of workers at the start.
        log_dir: folder of the logs; by default `directory/logs`.

    Attributes:
        workers: the running workers, by number.
    """

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        log_dir: Path | None = None,
    ) -> None:
        self.workers: dict[int, Child] = {}
        self._directory = directory.absolute()
        self._log_dir = (log_dir or directory / "logs").absolute()
        self._first_workers = workers
        self._master: Child | None = None
        self._port = 0
        self._started = 0

    @property
    def master(self) -> str:
        """The master's address, for `job.master`."""
        return f"spark://{LOOPBACK}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the master and its workers, and wait until the master listens.

        Raises:
            EmbeddedError: no Java, or the master ended at once.
        """
        self._log_dir.mkdir(parents=True, exist_ok=True)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        place = ("--host", LOOPBACK, "--port", str(self._port), "--webui-port", "0")
        try:
            with interrupts_deferred():
                self._master = self._launch("master", (f"{DEPLOY}.master.Master", *place))
            self._wait_for_master(self._master)
            for _ in range(self._first_workers):
                self.add_worker()
        except BaseException:
            self.stop()
            raise

    def add_worker(self, prefix: tuple[str, ...] = (), spark_home: Path | None = None) -> int:
        """Start another worker and return its number; it registers by itself.

        Args:
            prefix: a command that runs the worker, such as `unshare --mount`.
            spark_home: the worker's Spark; by default pyspark's.
        """
        number, self._started = self._started, self._started + 1
        folder = self._directory / f"worker-{number}"
        folder.mkdir(exist_ok=True)
        place = ("--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(folder))
        command = (f"{DEPLOY}.worker.Worker", *place, *_OFFER, self.master)
        with interrupts_deferred():
            self.workers[number] = self._launch(f"worker-{number}", command, prefix, spark_home)
        return number

    def kill_worker(self, number: int) -> None:
        """Kill a worker like a crash; its executors end when they notice."""
        worker = self.workers.pop(number)
        worker.request_kill()
        worker.wait()

    def stop(self) -> None:
        """Stop everything, workers first; harmless if repeated."""
        children = [*self.workers.values(), *filter(None, [self._master])]
        self.workers, self._master = {}, None
        for child in children:
            child.request_stop()
        for child in children:
            child.wait()

    def log_of(self, name: str) -> Path:
        """The output of `master` or `worker-N`."""
        return self._log_dir / f"{name}.out"

    def _launch(
        self,
        name: str,
        command: tuple[str, ...],
        prefix: tuple[str, ...] = (),
        spark_home: Path | None = None,
    ) -> Child:
        spark_home = spark_home or Path(pyspark.__file__).parent
        java_home = spark_java_home(find_java())
        hidden = {"SPARK_CONF_DIR", "SPARK_DAEMON_JAVA_OPTS", "SPARK_WORKER_OPTS"}
        environment = {
            **{key: value for key, value in os.environ.items() if key not in hidden},
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_SCALA_VERSION": SCALA_VERSION,
        }
        java = (str(java_home / "bin" / "java"), *DAEMON_OPTIONS)
        jars = ("-cp", f"{spark_home / 'jars'}/*")
        return start_child(
            (*prefix, *java, *jars, *command),
            self.log_of(name),
            cwd=self._directory,
            environment=environment,
            grace_s=GRACE_S,
        )

    def _wait_for_master(self, master: Child) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((LOOPBACK, self._port), CONNECT_TIMEOUT_S).close()
            except OSError:
                status, log = master.status(), self.log_of("master")
                if status is None and time.monotonic() < deadline_s:
                    time.sleep(POLL_S)
                    continue
                said = log.read_text("utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
                raise EmbeddedError(
                    f"Spark's master does not listen on {LOOPBACK}:{self._port} "
                    f"(exit status {status}).\n"
                    + "".join(f"  {line[:300]}\n" for line in said)
                    + f"Its output is in {log}."
                ) from None
            return
