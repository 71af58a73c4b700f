"""SQL of users is computed in processes of its own: bounded in memory, time and number."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from streaming.child_processes.memory_limit import MEMORY_BYTES
from streaming.child_processes.pool import OF_USER
from streaming.config.secrets import SecretText
from streaming.console.answering import Asked
from streaming.console.app import PAGES, make_app
from streaming.console.child import ChildSettings
from streaming.console.logins import Guard, Logins
from streaming.console.page import Console, Refused
from streaming.console.reader import BudgetError, Reader
from streaming.console.rights import User
from streaming.console.sql_answers import SqlAnswers
from tests.fixtures.waiting import WAIT_S, join, wait_until

HOST = "127.0.0.1:9420"
ADMIN = User("root", "editor", administrator=True)
ENDLESS = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(10000000) b"
BOUND_BYTES = MEMORY_BYTES + 64 * 1024 * 1024
"""Shared libraries are resident too."""


def settings_of(root):
    secrets: dict[str, str] = {"aws_secret_access_key": SecretText("as of tables in S3")}
    return ChildSettings(str(root), secrets, None, {}, is_read_only=False, can_log_out=False)


def asked(sql, user=ADMIN, **values):
    return Asked("/sql", user, "/sql", {"sql": sql, **values})


def test_a_child_imports_nothing_slow_that_few_questions_need():
    program = "import sys, streaming.console.child; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "duckdb" in listed
    assert not {"numpy", "pandas", "pyarrow", "pyspark"}.intersection(listed)


def peak_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+)", status)
    return int(kilobytes) * 1024


class Peaks(threading.Thread):
    """Follows the most memory that the children have had."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.pool, self.found, self.ends = pool, 0, threading.Event()

    def run(self):
        while not self.ends.wait(0.01):
            for pid in self.pool.pids():
                try:
                    self.found = max(self.found, peak_bytes(pid))
                except (OSError, ValueError):  # it has just ended
                    continue


class Pool:
    """The processes of a console, in an event loop of its own."""

    def __init__(self, root):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.answers = self._run(self._made(root))

    async def _made(self, root):
        return SqlAnswers(settings_of(root))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_S)

    def answer(self, asked):
        return self._run(self.answers.answer(asked))

    def pids(self):
        return self.answers.children.pids()

    def unanswered(self, user):
        return self.answers.children.unanswered(user)

    def stop(self):
        self._run(self.answers.children.stop())

    def close(self):
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        join(self._thread)
        self._loop.close()


@pytest.fixture(scope="module")
def pool(shop_root):
    """Children of all tests, the last of which ends them."""
    pool = Pool(shop_root)
    yield pool
    pool.close()


@pytest.fixture
def own_pool(shop_root):
    """Children of one test."""
    pool = Pool(shop_root)
    yield pool
    pool.close()


def text_of(answered):
    return answered.status, answered.body.decode()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('a', 2000000000)",
        "SELECT list(range) FROM range(100000000)",
        "SELECT array_agg(repeat('x', 1000000)) FROM range(5000)",
    ],
)
def test_a_query_that_needs_too_much_memory_is_refused_in_words(pool, sql):
    peaks = Peaks(pool)
    peaks.start()
    before = peak_bytes(os.getpid())

    status, text = text_of(pool.answer(asked(sql)))
    peaks.ends.set()
    join(peaks)

    assert status == 400
    assert "needs more than 512MB of memory" in text
    assert "Error" not in text
    assert 0 < peaks.found < BOUND_BYTES
    assert peak_bytes(os.getpid()) - before < 64 * 1024 * 1024
    assert text_of(pool.answer(asked("SELECT 41 + 1 AS answer")))[0] == 200


def test_a_child_is_used_again_and_says_what_is_wrong_with_a_query(pool):
    assert '<td class="text">42</td>' in text_of(pool.answer(asked("SELECT 41 + 1")))[1]
    pids = pool.pids()

    status, text = text_of(pool.answer(asked("SELECT nonsense")))
    assert (status, pool.pids()) == (400, pids)
    assert "nonsense" in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "ATTACH '/tmp/other.db'",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "INSTALL httpfs",
        "SET memory_limit = '9GB'",
        "SELECT getenv('HOME')",
        "SELECT 1; SELECT 2",
    ],
)
def test_a_child_only_reads_the_tables(pool, sql):
    status, text = text_of(pool.answer(asked(sql)))

    assert status == 400
    assert "root:" not in text


def test_a_file_comes_whole(pool):
    query = "SELECT range AS n, repeat('x', 1000) AS x FROM range(20000)"
    found = pool.answer(Asked("/sql/export", ADMIN, "/sql/export", {"sql": query, "format": "csv"}))

    assert found.headers["content-type"].startswith("text/csv")
    content = b"".join(found.file)
    assert content.count(b"\n") == 20_001
    assert content.endswith(b"x\n")


def test_a_query_beyond_its_time_is_refused_and_its_process_killed(own_pool):
    own_pool.answer(asked("SELECT 1"))
    [pid] = own_pool.pids()
    own_pool.answers.budget_s = 0.2  # far below that of the child, which is stuck for us

    with pytest.raises(BudgetError, match="its process was ended"):
        own_pool.answer(asked(ENDLESS))

    assert pid not in own_pool.pids()


def test_a_child_that_is_killed_costs_one_answer(own_pool):
    own_pool.answer(asked("SELECT 1"))
    [pid] = own_pool.pids()
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(BudgetError):
        own_pool.answer(asked("SELECT 1"))
    assert text_of(own_pool.answer(asked("SELECT 1")))[0] == 200

    own_pool.stop()
    assert own_pool.pids() == []
    with pytest.raises(Refused):
        own_pool.answer(asked("SELECT 1"))


def test_who_asks_a_child_that_ends_while_it_starts_is_told_so(own_pool, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")

    with pytest.raises(BudgetError):
        own_pool.answer(asked("SELECT 1"))


def test_heavy_queries_of_one_user_leave_a_place_for_others(own_pool):
    eve = User("eve", "viewer", administrator=True)
    heavy = ThreadPoolExecutor(OF_USER)
    answers = [heavy.submit(own_pool.answer, asked(ENDLESS, eve)) for _ in range(OF_USER)]
    wait_until(lambda: own_pool.unanswered("eve") == len(answers))

    assert own_pool.answer(asked("SELECT 1")).status == 200
    assert own_pool.unanswered("eve") == len(answers)  # none has an answer
    with pytest.raises(Refused, match="not answered yet"):
        own_pool.answer(asked("SELECT 1", eve))
    own_pool.stop()
    assert all(isinstance(one.exception(), Refused | BudgetError) for one in answers)
    heavy.shutdown()


@pytest.fixture(scope="module")
def client(shop_root):
    tokens: list[str] = []
    guard = Guard(frozenset({HOST}), logins=Logins(tokens.append))
    with TestClient(
        make_app(Console(Reader(shop_root), PAGES), guard), base_url=f"http://{HOST}"
    ) as client:
        client.get(f"/health?token={tokens[0]}")
        yield client


SQL_ADDRESSES = [
    "/sql?sql=SELECT 1",
    "/search?where=true",
    "/causes?where=true",
    "/redrive/plan?where=true",
]
FILES = ["/sql/export?sql=SELECT 1", "/search/export?format=csv", "/message/body?id=first"]


@pytest.mark.parametrize("address", [*SQL_ADDRESSES, *FILES])
def test_another_site_cannot_let_a_browser_ask_for_it(client, address):
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"referer": "http://evil.example/"},
        {"user-agent": "Mozilla/5.0"},
    ):
        answer = client.get(address, headers=headers)
        assert answer.status_code == 403
        assert "another site" in answer.text
        [again] = re.findall(r'<a href="([^"]*)">Open it</a>', answer.text)
        assert again.startswith(address.partition("?")[0] + "?")


@pytest.mark.parametrize("address", SQL_ADDRESSES)
def test_a_page_of_the_console_can(client, address):
    headers = {"sec-fetch-site": "same-origin", "user-agent": "Mozilla/5.0"}

    assert client.get(address, headers=headers).status_code == 200


def test_a_condition_takes_no_more_memory_than_a_query(client):
    where = "length(repeat('a', 2000000000)) > length(queue)"

    for path in ("/search", "/search/export", "/causes", "/redrive/plan"):
        answer = client.get(path, params={"where": where})
        assert (path, answer.status_code) == (path, 400)
        assert "needs more than 512MB" in answer.text, path


def test_pages_without_sql_need_no_process(client, shop_root):
    tokens: list[str] = []
    guard = Guard(frozenset({HOST}), logins=Logins(tokens.append))
    app = make_app(Console(Reader(shop_root), PAGES), guard)
    before = children_of_this_process()
    with TestClient(app, base_url=f"http://{HOST}") as other:
        other.get(f"/health?token={tokens[0]}")
        for path in ("/", "/search", "/queues", "/causes"):
            assert other.get(path).status_code == 200
        after = children_of_this_process()
    assert after <= before


def children_of_this_process():
    return {one.name for one in Path("/proc").iterdir() if one.name.isdigit() and _is_child(one)}


def _is_child(process):
    try:
        command = (process / "cmdline").read_bytes()
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return False
    return b"streaming.console.child" in command and int(parent) == os.getpid()
