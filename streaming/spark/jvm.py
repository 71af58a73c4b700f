"""Spark's JVM as a child process: started with its output in a file, ended without leftovers.

pyspark tells the JVM to end by closing its stdin, which the system also does when we are killed.
It is in a session of its own: a signal for our whole process group (of `timeout`, say, or of a
terminal) is ours to obey, by ending Spark in good order.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from streaming.embedded.errors import EmbeddedError

END_TIMEOUT_S = 30
SHOWN_LINES = 4


def launch_jvm(settings: Mapping[str, str], output: Path) -> Any:
    """Start the JVM.

    Args:
        settings: what must be known at its start; every user of the machine can read them.
        output: takes all that it and the Python workers print.

    Returns:
        py4j's gateway to it.

    Raises:
        EmbeddedError: it ended at once; says what it printed.
    """
    with output.open("wb") as log:
        try:
            return launch_gateway(  # type: ignore[no-untyped-call]
                spark_conf(settings), {"stdout": log, "stderr": log, "start_new_session": True}
            )
        except PySparkRuntimeError as failure:
            said = output.read_text("utf-8", errors="replace").strip().splitlines()[-SHOWN_LINES:]
            raise EmbeddedError(
                "Spark's JVM did not start:\n"
                + "".join(f"  {line}\n" for line in said)
                + f"All it printed is in {output}. Check the Java (JAVA_HOME) and the memory "
                "(driver memory) it was given."
            ) from failure


def make_context(settings: Mapping[str, str], gateway: Any) -> SparkContext:
    """Start Spark in the JVM; the settings travel over the gateway, so they may hold secrets.

    Raises:
        EmbeddedError: Spark refused them. The JVM still runs.
    """
    try:
        return SparkContext(conf=spark_conf(settings), gateway=gateway)
    except Py4JJavaError as failure:
        said = failure.java_exception.toString()  # asked now: it cannot be once the JVM has ended
        raise EmbeddedError(
            f"Spark did not start: {said}\nCheck the master and the Spark properties it was given."
        ) from None


def end_jvm(gateway: Any) -> None:
    """End the JVM, and make pyspark forget it, so that another can be started."""
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 (kept for ever otherwise)
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def has_ended(gateway: Any, seconds: float) -> bool:
    """Whether the JVM has ended by itself; waits for so long while it still ends."""
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def spark_conf(settings: Mapping[str, str]) -> SparkConf:
    """Settings in pyspark's form."""
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for a while, None removing one.

    pyspark reads them when it starts the JVM; our other programs should not see them.
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
    """Keep the handler of Ctrl-C: pyspark puts one in its place that cancels all jobs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
