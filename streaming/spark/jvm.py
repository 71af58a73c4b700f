"""Spark's JVM as a child process: its output goes to a file, and it ends without leftovers.

Closing its stdin ends the JVM; the system also closes it if this process is killed. The JVM has its
own process session: a signal for our process group (from a terminal or `timeout`) reaches only this
process, which then stops Spark cleanly.
"""

import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from streaming.embedded.errors import EmbeddedError
from streaming.niceness import make_session_nice, yield_at_least

END_TIMEOUT_S = 30
SHOWN_LINES = 4

BUSY_THREADS_NICE = 5
"""Three threads of one niceness have as much of a processor as one whose niceness is 5 lower."""

logger = logging.getLogger(__name__)


def launch_jvm(settings: Mapping[str, str], output: Path, *, as_json: bool = False) -> Any:
    """Start the JVM.

    Args:
        settings: settings that it needs at its start; every user of the machine can read them.
        output: file for the output of the JVM and the Python workers.
        as_json: whether each line of the output becomes a JSON object.

    Raises:
        EmbeddedError: the JVM ended at once; the message quotes its output.
    """
    with _json_lines(output) if as_json else output.open("wb") as log:
        try:
            return launch_gateway(  # type: ignore[no-untyped-call] # has no types
                spark_conf(settings), {"stdout": log, "stderr": log, "start_new_session": True}
            )
        except PySparkRuntimeError as failure:
            said = output.read_text("utf-8", errors="replace").strip().splitlines()[-SHOWN_LINES:]
            raise EmbeddedError(
                "Spark's JVM did not start:\n"
                + "".join(f"  {line}\n" for line in said)
                + f"Its output is in {output}. Check the Java (JAVA_HOME) and the driver memory."
            ) from failure


def make_nice(gateway: Any, nice: int) -> None:
    """Let the JVM and what it will start yield to other programs.

    On Linux each thread has its own niceness, and what a thread starts inherits it. Where the
    kernel shares processor time between sessions first, the session must yield, too
    (`make_session_nice`). It counts as one thread, whatever is busy in it; Spark has about three
    busy threads.

    Args:
        nice: as the system counts it; 0 changes nothing, and a thread that is nicer stays so.
    """
    process: int = gateway.proc.pid
    if nice:
        _each_thread(process, lambda thread: yield_at_least(thread, nice))
    if nice > BUSY_THREADS_NICE:
        make_session_nice(process, nice - BUSY_THREADS_NICE)


def spare_cores(gateway: Any, count: int) -> None:
    """Let the JVM and what it will start use no more than the other cores of this process.

    Who waits for a core of a busy machine waits for one thread after the other, however nice they
    are: each of them keeps it for some milliseconds.

    Args:
        count: of the cores that others have for themselves; one stays for Spark.
    """
    if count:
        _use_cores([gateway.proc.pid], count)


def hurry(gateway: Any, nice: int, count: int, *, hurries: bool) -> None:
    """Let the JVM, and what it has started, not yield to other sessions and use all cores for now.

    Args:
        nice: what `make_nice` was given.
        count: what `spare_cores` was given.
        hurries: whether it does not yield now; False: as before.
    """
    process: int = gateway.proc.pid
    if nice > BUSY_THREADS_NICE:
        make_session_nice(process, 0 if hurries else nice - BUSY_THREADS_NICE)
    if count:
        _use_cores(_of_session(process), 0 if hurries else count)


def _of_session(leader: int) -> Iterator[int]:
    """The processes of a session, on Linux."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(each.name)) == leader:
                yield int(each.name)


def _use_cores(processes: Iterable[int], spared: int) -> None:
    """Let processes use all cores of this one but some."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    used = cores[min(spared, len(cores) - 1) :]
    for process in processes:
        _each_thread(process, lambda thread: os.sched_setaffinity(thread, used))


def _each_thread(process: int, change: Callable[[int], None]) -> None:
    """Change all threads of a process, also those that start meanwhile: they are seen later."""
    tasks = Path(f"/proc/{process}/task")
    changed: set[int] = set()
    while True:
        found = {int(each.name) for each in tasks.iterdir()} if tasks.is_dir() else {process}
        if found <= changed:
            return
        for task in found - changed:
            with suppress(ProcessLookupError):
                change(task)
        changed |= found


def _json_lines(output: Path) -> BinaryIO:
    """Return a pipe whose lines a thread writes to a file, each as a JSON object.

    The thread ends when the last process that writes has ended.
    """
    reading, writing = os.pipe()

    def copy() -> None:
        with (
            os.fdopen(reading, encoding="utf-8", errors="replace") as lines,
            output.open("w", encoding="utf-8", buffering=1) as file,
        ):
            for text in lines:
                at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
                line = {
                    "time": at,
                    "level": "INFO",
                    "logger": "spark.out",
                    "message": text.rstrip(),
                }
                file.write(json.dumps(line) + "\n")

    threading.Thread(target=copy, name="spark.out", daemon=True).start()
    return os.fdopen(writing, "wb")


def make_context(settings: Mapping[str, str], gateway: Any) -> SparkContext:
    """Start Spark in the JVM; settings go over the gateway, so they may hold secrets.

    Raises:
        EmbeddedError: Spark refused the settings. The JVM still runs.
    """
    try:
        return SparkContext(conf=spark_conf(settings), gateway=gateway)
    except Py4JJavaError as failure:
        said = failure.java_exception.toString()  # must be read while the JVM runs
        raise EmbeddedError(
            f"Spark did not start: {said}\nCheck the configured master and Spark properties."
        ) from None


def end_jvm(gateway: Any) -> None:
    """End the JVM, and let pyspark forget it so that another can be started."""
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 (pyspark never resets them)
    assert process.stdin is not None
    process.stdin.close()
    if not has_ended(gateway, END_TIMEOUT_S):
        process.kill()
        process.wait()


def has_ended(gateway: Any, seconds: float) -> bool:
    """Whether the JVM has ended; waits up to `seconds` for its end."""
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def spark_conf(settings: Mapping[str, str]) -> SparkConf:
    """Settings as pyspark's configuration."""
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables temporarily; None removes one.

    pyspark reads them when it starts the JVM. Other child processes must not see them.
    """
    before = {name: os.environ.get(name) for name in variables}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(variables)
    try:
        yield
    finally:
        put(before)


@contextmanager
def own_interrupt_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which pyspark replaces by one that cancels all jobs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
