"""`dlx console` serves the tables, prints a link that logs in, and ends with Ctrl-C."""

import http.cookiejar
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from logging.handlers import QueueHandler
from pathlib import Path

import pytest

from streaming.cli.exit_codes import EXIT_INVALID
from streaming.config import load_config
from streaming.console import beside_job
from streaming.console.beside_job import NICE, ConsoleProcess
from streaming.console.reader import BudgetError, Reader
from streaming.listening import ListenError
from tests.fixtures.child import Child
from tests.fixtures.waiting import WAIT_S

LEAST_PRIORITY = 19
"""No process is nicer, whatever it asks for."""


@pytest.fixture
def start(tmp_path):
    """Starts `dlx console` with options."""
    running = []

    def run(*options):
        process = Child(
            [sys.executable, "-m", "streaming.cli", "console", *options],
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def visit(link):
    """The page that a link leads to, in a browser of its own."""
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    browser = urllib.request.build_opener(jar)
    browser.addheaders = [("HX-Request", "true")]  # it waits for the page
    with browser.open(link) as answer:
        return answer.read().decode()


def test_the_printed_link_logs_in_and_ctrl_c_ends_the_console(start, shop_root):
    process = start("--tables", shop_root)
    link = process.line()
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    page = browser.open(link).read().decode()
    events = browser.open(link.partition("?")[0] + "events")
    assert events.readline() == b"retry: 1000\n"
    process.send_signal(signal.SIGINT)

    assert "<h1>Now</h1>" in page
    assert process.wait() == 0
    assert "Traceback" not in process.stderr.read()


def test_the_language_is_a_code_or_a_file_beside_the_configuration(start, shop_root, tmp_path):
    (tmp_path / "place").mkdir()
    file = tmp_path / "place" / "dlx.toml"
    config = f'[job]\ntables_location = "{shop_root}"\n[console]\nlanguage = "mine.po"\n'
    file.write_text(config)
    (file.parent / "mine.po").write_text(
        'msgid ""\nmsgstr "Language: nl\\n"\n\nmsgid "Now"\nmsgstr "Nu"\n'
    )

    dutch = visit(start("--config", str(file)).line())
    german = start("--tables", shop_root, "--language", "de")
    refused = start("--tables", shop_root, "--language", "xx")

    assert "<h1>Nu</h1>" in dutch
    assert "<h1>Jetzt</h1>" in visit(german.line())
    assert refused.wait() == EXIT_INVALID
    assert "there is no translation 'xx'; there are de, en" in refused.stderr.read()


def test_a_console_beside_a_job_ends_with_the_job(tmp_path, shop_root, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "dlx.toml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    file.write_text(f'[job]\ntables_location = "{shop_root}"\n[console]\nlisten = "{address}"\n')
    messages: queue.Queue[logging.LogRecord] = queue.Queue()
    logger = logging.getLogger(beside_job.__name__)
    handler = QueueHandler(messages)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    console = ConsoleProcess(load_config(file).console, file)
    try:
        said = messages.get(timeout=WAIT_S).getMessage()
        [kept] = (tmp_path / "state").rglob("link-*")
        mode, link = kept.stat().st_mode & 0o777, kept.read_text().strip()
        is_in = "<h1>" in visit(link)
        again = messages.get(timeout=WAIT_S).getMessage()
        next_link = kept.read_text().strip()
        priority = os.getpriority(os.PRIO_PROCESS, console.pid)
        session = Path(f"/proc/{console.pid}/autogroup")
        of_session = session.read_text() if session.exists() else ""
        with pytest.raises(ListenError):
            ConsoleProcess(load_config(file).console, file)
    finally:
        console.stop()
        logger.removeHandler(handler)

    assert address in said
    assert str(kept) in said
    assert "token" not in said + again
    assert (mode, is_in, kept.exists()) == (0o600, True, False)
    assert address in link
    assert next_link != link
    assert priority == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, LEAST_PRIORITY)
    assert of_session.split()[-2:] in ([], ["nice", str(NICE)])  # none where sessions do not count
    with socket.create_server(("127.0.0.1", int(address.split(":")[1]))):
        pass


def test_a_second_console_takes_another_port(start, shop_root):
    first = start("--tables", shop_root).line()
    second = start("--tables", shop_root).line()

    assert first.split("?")[0] != second.split("?")[0]


def test_an_address_that_is_in_use_is_refused(start, shop_root):
    address = start("--tables", shop_root).line().split("/")[2]

    process = start("--tables", shop_root, "--listen", address)

    assert process.wait() == EXIT_INVALID
    assert address in process.stderr.read()


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:0", "0.0.0.0:9420"])
def test_an_address_that_cannot_be_used_is_refused(start, shop_root, address):
    process = start("--tables", shop_root, "--listen", address)

    assert process.wait() == EXIT_INVALID
    error = process.stderr.read()
    assert "listen" in error
    assert "Traceback" not in error


def test_tables_that_do_not_exist_are_said_on_the_page(start, tmp_path):
    link = start("--tables", str(tmp_path)).line()
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    browser.addheaders = [("HX-Request", "true")]  # it waits for the page
    with pytest.raises(urllib.error.HTTPError) as refused:
        browser.open(link)

    assert str(tmp_path) in refused.value.read().decode()


def test_the_end_of_the_console_ends_the_balance_that_is_drawn(shop_root):
    reader = Reader(shop_root)
    started, results = threading.Event(), []

    def endless():
        with reader.background(WAIT_S) as tables:
            started.set()
            tables.values("SELECT count(*) FROM range(100_000_000_000) AS a, range(1_000_000) AS b")

    def draw():
        try:
            endless()
        except BudgetError as error:
            results.append(str(error))

    thread = threading.Thread(target=draw)
    thread.start()
    assert started.wait(WAIT_S)

    reader.stop()
    thread.join(WAIT_S)

    assert len(results) == 1
    with pytest.raises(BudgetError), reader.background(WAIT_S):
        pass


def test_the_command_takes_quiet_queues_from_the_configuration(start, tmp_path, shop_root):
    (tmp_path / "dlx.toml").write_text(
        f'[job]\ntables_location = "{shop_root}"\n[metrics]\nquiet_queues = ["dead"]\n'
        '[alerts.quiet]\nDlxNoConsumer = ["box"]\n'
    )

    quiet = visit(start("--config", "dlx.toml").line())
    loud = visit(start("--tables", shop_root).line())

    for said in (" in queues, the oldest for ", "box has messages and no consumer"):
        assert [page.count(said) for page in (quiet, loud)] == [0, 1]
