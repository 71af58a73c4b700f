"""RabbitMQ's tutorials for pika, ported line by line, against a real job: sync and asyncio."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fixtures.child import Child
from tests.fixtures.waiting import WAIT_S

CHECKOUT = Path(__file__).resolve().parents[3]
PROGRAMS = CHECKOUT / "examples" / "pika"
PATIENCE_S = 2 * WAIT_S
"""Longer than the programs themselves wait: they say more than a test that gives up."""


class Session(NamedTuple):
    """A receiver, the senders that follow it, and what they print."""

    folder: str
    receiver: tuple[str, ...]
    senders: tuple[tuple[str, ...], ...]
    received: tuple[str, ...]
    sent: tuple[str, ...]


SESSIONS = (
    Session(
        "hello_world",
        ("receive",),
        (("send",),),
        (" [x] Received Hello World!",),
        (" [x] Sent 'Hello World!'",),
    ),
    Session(
        "work_queues",
        ("worker",),
        (("new_task", "First", "task."), ("new_task",)),
        (" [x] Received First task.", " [x] Done", " [x] Received Hello World!", " [x] Done"),
        (" [x] Sent First task.", " [x] Sent Hello World!"),
    ),
    Session(
        "publish_subscribe",
        ("receive_logs",),
        (("emit_log",),),
        (" [x] info: Hello World!",),
        (" [x] Sent info: Hello World!",),
    ),
    Session(
        "routing",
        ("receive_logs_direct", "warning", "error"),
        (
            ("emit_log_direct", "info", "not", "for", "it"),
            ("emit_log_direct", "error", "Run.", "Run."),
        ),
        (" [x] error:Run. Run.",),
        (" [x] Sent info:not for it", " [x] Sent error:Run. Run."),
    ),
    Session(
        "topics",
        ("receive_logs_topic", "kern.*", "*.critical"),
        (
            ("emit_log_topic", "cron.info", "not", "for", "it"),
            ("emit_log_topic", "kern.critical", "once"),
        ),
        (" [x] kern.critical:once",),
        (" [x] Sent cron.info:not for it", " [x] Sent kern.critical:once"),
    ),
    Session(
        "rpc",
        ("rpc_server",),
        (("rpc_client",),),
        (" [.] fib(20)",),
        (" [x] Requesting fib(20)", " [.] Got 6765"),
    ),
)
ALONE = {
    "dead_letters/reject": (" [x] order 1: rejected in orders",),
    "publisher_confirms/confirms": (
        " [x] Confirmed one message",
        " [x] Returned: NO_ROUTE",
        " [x] Confirmed 1000 messages, 0 failed",
    ),
}


@pytest.fixture(scope="module", params=["", "aio_"], ids=["sync", "asyncio"])
def printed(request, running_job):
    """What all programs of one kind print, in a vhost of their own; they run at the same time."""
    vhost = running_job.second_vhost if request.param else running_job.own_vhost
    programs = Programs(request.param, running_job.servers, vhost)
    with ThreadPoolExecutor(len(SESSIONS) + len(ALONE)) as pool, ExitStack() as stack:
        stack.callback(programs.kill)  # before the pool waits for who reads their output
        found: dict[str, Future[Any]] = {
            **{name: pool.submit(programs.output, *name.split("/")) for name in ALONE},
            **{each.folder: pool.submit(programs.play, each) for each in SESSIONS},
        }
        yield {name: future.result() for name, future in found.items()}


class Programs:
    """Runs programs in one vhost of a job, all with `aio_` before their names, or all without."""

    def __init__(self, prefix: str, servers: str, vhost: str) -> None:
        self._prefix = prefix
        self._variables = {"DLX_KAFKA": servers, "DLX_VHOST": vhost}
        self._started: list[Child] = []

    def start(self, folder: str, name: str, *arguments: str) -> Child:
        text = (PROGRAMS / folder / f"{self._prefix}{name}.py").read_text("utf-8")
        assert "vhost=VHOST" in text
        patient = text.replace("vhost=VHOST", f"vhost=VHOST, timeout_s={WAIT_S}")
        process = Child(
            [sys.executable, "-u", "-c", patient, *arguments],
            cwd=CHECKOUT,
            env={**os.environ, **self._variables},
            stderr=subprocess.STDOUT,
        )
        self._started.append(process)
        return process

    def kill(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def output(self, folder: str, name: str, *arguments: str) -> tuple[str, ...]:
        """The lines of a program that ends by itself, and its exit status."""
        process = self.start(folder, name, *arguments)
        return *process.rest(PATIENCE_S).splitlines(), f"exit {process.wait()}"

    def play(self, session: Session) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What a receiver prints until Ctrl-C, and what its senders print."""
        receiver = self.start(session.folder, *session.receiver)
        received = [receiver.line(PATIENCE_S)]
        sent = [line for each in session.senders for line in self.output(session.folder, *each)]
        received += [receiver.line(PATIENCE_S) for _ in session.received]
        receiver.send_signal(signal.SIGINT)
        received += [*receiver.rest(PATIENCE_S).splitlines(), f"exit {receiver.wait()}"]
        return tuple(received), tuple(sent)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.folder)
def test_a_receiver_gets_what_the_senders_send(printed, session):
    [greeting, *received], sent = printed[session.folder]

    assert "aiting" in greeting
    assert received == [*session.received, "Interrupted", "exit 0"]
    assert [line for line in sent if not line.startswith("exit")] == list(session.sent)
    assert {line for line in sent if line.startswith("exit")} == {"exit 0"}


@pytest.mark.parametrize("program", ALONE)
def test_a_program_that_works_alone(printed, program):
    assert printed[program] == (*ALONE[program], "exit 0")
