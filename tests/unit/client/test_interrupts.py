"""Ctrl-C at any instant ends the program: no wait outlasts it, and no lock stays held."""

import asyncio
import gc
import itertools
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from streaming.client import Address, ClientError
from streaming.client._deliveries import Arrivals, CallbackQueue
from streaming.client._transport.command_client import CommandClient
from streaming.client._transport.confirms import Confirm, Confirms
from streaming.client._transport.flow import Flow
from streaming.client.aio.threads import Pulse
from streaming.client.publisher import Publisher
from streaming.waiting import Flag, SafeCondition, end
from tests.fixtures.waiting import WAIT_S


def ctrl_c_that_wakes_nobody_ends(wait: Callable[[], object]) -> None:
    """Ctrl-C whose handler runs on another thread, as if just before this one began to wait."""
    main = threading.get_ident()
    hung = threading.Event()

    def interrupt() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def wake() -> None:
        hung.set()
        signal.pthread_kill(main, signal.SIGINT)

    timers = [threading.Timer(0.05, interrupt), threading.Timer(WAIT_S, wake)]
    try:
        # on a busy machine it comes before the wait
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (of the block, whatever it is)
            for timer in timers:
                timer.start()
            wait()
    finally:
        for timer in timers:
            timer.cancel()
    assert not hung.is_set(), "the wait went on"


WAITS: dict[str, Callable[[], object]] = {
    "start_consuming": lambda: CallbackQueue().run(None, lambda: True),
    "a loop over a consumer": lambda: Arrivals().next(None),
    "the result of a publish": lambda: Confirm(in_transaction=False).result(),
    "wait_for_confirms": lambda: with_one_publish().wait_for_none(None),
    "flow control": lambda: stopped_flow().wait(lambda: None),
    "a flag": lambda: Flag().wait(None),
    "the answer of a command": lambda: Commands().client.request({"op": "renew"}, "c"),
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_just_before_a_wait_begins_ends_it(wait):
    ctrl_c_that_wakes_nobody_ends(WAITS[wait])


def with_one_publish() -> Confirms:
    confirms = Confirms(10)
    assert confirms.add(Confirm(in_transaction=False), 0)
    return confirms


def stopped_flow() -> Flow:
    flow = Flow()
    flow.notice(1, active=False)
    return flow


class Commands:
    """A command client whose commands Kafka has, and which `answer` answers."""

    def __init__(self) -> None:
        address: Any = SimpleNamespace(commands="c", vhost="/", sequenced=False, bootstrap="k")
        liveness: Any = SimpleNamespace(is_alive=False, is_running=True, absence=lambda: "")
        self.client: CommandClient = CommandClient(address, self, WAIT_S, liveness)  # type: ignore[arg-type]

    def send(self, _topic: str, _record: Any, on_report: Any, *, partition: int) -> None:
        on_report(None, None)

    def answer(self) -> None:
        """Give the outcome of every command, as the reader's thread does."""
        self.client.fail_all(ClientError("closed"))


class Signal:
    """A signal at the nth instant at which Python looks for them: in a profile function.

    Python looks for signals when a function of its own begins and when one of C has returned. In
    those of logging none comes: its locks are all programs', and would stay held.
    """

    def __init__(self, instant: int, handler: Callable[[], object]) -> None:
        self.left = instant
        self._handler = handler

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event in {"call", "c_return"} and frame.f_code.co_filename != logging.__file__:
            self.left -= 1
            if self.left == 0:
                self._handler()

    @contextmanager
    def comes(self) -> Iterator[None]:
        before = sys.getprofile()
        gc.disable()  # nor in what tools call when garbage is collected
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            gc.enable()


def ctrl_c() -> None:
    raise KeyboardInterrupt


Pair = tuple[Callable[[], object], Callable[[], object]]


def interrupt_everywhere(make: Callable[[], Pair]) -> None:
    """Interrupt a program at each instant; what the reader's thread does then must come to an end.

    Args:
        make: makes both.
    """
    program, reader = make()
    with suppress(ClientError):
        program()  # imports what it needs: Python's own code of imports shall not be interrupted
    run_on_a_thread(reader)
    for instant in itertools.count(1):
        program, reader = make()
        signal_ = Signal(instant, ctrl_c)
        with suppress(KeyboardInterrupt, ClientError), signal_.comes():
            program()
        try:
            run_on_a_thread(reader)
        except AssertionError as error:
            raise AssertionError(f"after Ctrl-C at instant {instant}: {error}") from error
        if signal_.left > 0:  # the program ended before
            assert instant > 10
            return


def run_on_a_thread(work: Callable[[], object]) -> None:
    """Run a function on a thread that nobody waits for without end."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 (raised below)
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "a lock is held"
    for failure in failures:
        raise failure


class Link:
    """What a publisher needs of a connection; Kafka has what it sends once `report` is called."""

    def __init__(self) -> None:
        self.address = Address(bootstrap="k")
        self.dispatch = SimpleNamespace(add=lambda *_: None)
        self.flow = Flow()
        self.sender = self
        self.reports: list[Any] = []

    def check_open(self) -> None: ...

    def send(self, _topic: str, _record: Any, on_report: Any, *, partition: int) -> None:
        self.reports.append(on_report)

    def report(self) -> None:
        """Report each record, at an offset of its own."""
        for offset, report in enumerate(self.reports):
            report(None, SimpleNamespace(partition=lambda: 0, offset=lambda at=offset: at))


def a_publisher(link: Any) -> Publisher:
    return Publisher(link, "p", confirms=True, on_return=None, on_flow="block", max_unconfirmed=1)


def test_an_interrupted_publish_keeps_nothing_locked_and_nothing_unconfirmed():
    def make() -> Pair:
        link = Link()
        publisher = a_publisher(link)

        def publish() -> None:
            confirm = publisher.publish("", "q", b"body")
            with suppress(TimeoutError):
                confirm.result(0)
            publisher.wait_for_confirms(0)

        def confirm() -> None:
            link.report()
            for offset in range(len(link.reports)):
                publisher._confirms.confirmed((0, offset), None)  # noqa: SLF001 (the reader calls it)
            assert publisher.unconfirmed == 0

        return publish, confirm

    interrupt_everywhere(make)


def test_a_future_that_its_user_holds_can_be_completed():
    def make() -> Pair:
        confirm = Confirm(in_transaction=False)

        def use() -> None:
            confirm.add_done_callback(lambda _: None)
            confirm.done()
            with suppress(TimeoutError):
                confirm.result(0)
            with suppress(TimeoutError):
                confirm.exception(0)

        return use, lambda: confirm.finish(None)

    interrupt_everywhere(make)


def test_an_interrupted_command_can_be_answered():
    def make() -> Pair:
        commands = Commands()
        return lambda: commands.client.request({"op": "renew"}, "c", timeout_s=0), commands.answer

    interrupt_everywhere(make)


def test_an_interrupted_wait_for_flow_control_lets_notices_through():
    def make() -> Pair:
        flow = stopped_flow()
        return lambda: flow.wait(lambda: None, 0), lambda: flow.notice(2, active=True)

    interrupt_everywhere(make)


def test_a_condition_notifies_as_any_other():
    condition = SafeCondition()
    said: list[bool] = []

    def wait() -> None:
        with condition:
            said.append(condition.wait_for(lambda: bool(said), WAIT_S))

    waiting = threading.Thread(target=wait, daemon=True)
    with condition:
        waiting.start()
    with condition:
        said.append(True)
        condition.notify_all()
    waiting.join(WAIT_S)
    assert said == [True, True]


def test_a_callback_that_never_returns_is_not_waited_for_without_end(caplog):
    returns = threading.Event()
    thread = threading.Thread(target=returns.wait, name="dlx-client-reader", daemon=True)
    thread.start()

    end(thread, 0.01)
    returns.set()
    end(thread, WAIT_S)

    assert "dlx-client-reader has not ended within 0.01 s" in caplog.text
    assert not thread.is_alive()


def test_ctrl_c_just_before_the_event_loop_begins_to_wait_ends_it():
    async def main() -> None:
        Pulse()
        await asyncio.Event().wait()

    ctrl_c_that_wakes_nobody_ends(lambda: asyncio.run(main()))


def test_a_handler_may_set_the_flag_that_is_waited_for():
    for instant in itertools.count(1):
        flag = Flag()
        signal_ = Signal(instant, flag.set)
        with signal_.comes():
            flag.wait(0.001)
        if signal_.left > 0:  # it was not set
            assert instant > 5
            return
        assert flag.wait(0)
