"""Attempts to log in are limited, take one thread, and let those who have not failed go first."""

import threading

import pytest

from streaming.console.attempts import (
    MAX_WAITING,
    MOST,
    WINDOW_S,
    Attempts,
    TooManyAttemptsError,
)
from streaming.console.logins import Credentials, Guard, hash_password
from tests.fixtures.clocks import HandClock
from tests.fixtures.waiting import WAIT_S, join, wait_until

HOST = "127.0.0.1:9420"


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def attempts(clock):
    return Attempts(clock)


def wrong():
    return None


class Blocked:
    """Attempts of which the first does not end."""

    def __init__(self, attempts):
        self.attempts = attempts
        self.ends = threading.Event()
        self.order = []
        self.begun = threading.Event()

        def first():
            self.begun.set()
            self.ends.wait(WAIT_S)

        self.answer = attempts.submit("first", "10.0.0.1", first)
        assert self.begun.wait(WAIT_S)

    def submit(self, name, client):
        return self.attempts.submit(name, client, lambda: self.order.append(name))


@pytest.fixture
def blocked(attempts):
    blocked = Blocked(attempts)
    yield blocked
    blocked.ends.set()


def test_who_has_gone_takes_no_time_and_no_place(attempts, blocked):
    gone = [blocked.submit(f"gone-{n}", "10.0.0.9") for n in range(MAX_WAITING)]
    assert all(one.cancel() for one in gone)

    last = [blocked.submit(f"here-{n}", f"10.0.0.{n}") for n in range(2)]
    blocked.ends.set()

    assert [one.result(WAIT_S) for one in last] == [None, None]
    assert blocked.order == ["here-0", "here-1"]


def test_a_name_is_limited_from_one_client_until_time_has_passed(attempts, clock):
    for _ in range(MOST):
        assert attempts.submit("anna", "10.0.0.1", wrong).result(WAIT_S) is None

    with pytest.raises(TooManyAttemptsError) as refused:
        attempts.submit("anna", "10.0.0.1", lambda: "anna")

    assert refused.value.retry_s == WINDOW_S
    assert attempts.submit("anna", "10.0.0.2", lambda: "anna").result(WAIT_S) == "anna"
    assert attempts.submit("bert", "10.0.0.1", lambda: "bert").result(WAIT_S) == "bert"
    clock.now_s += WINDOW_S
    assert attempts.submit("anna", "10.0.0.1", lambda: "anna").result(WAIT_S) == "anna"


def test_the_right_password_ends_the_count(attempts):
    for _ in range(3):
        for _ in range(MOST - 1):
            attempts.submit("anna", "10.0.0.1", wrong).result(WAIT_S)
        assert attempts.submit("anna", "10.0.0.1", lambda: "anna").result(WAIT_S) == "anna"


def test_those_that_wait_count_too(blocked):
    for _ in range(MOST):
        blocked.submit("anna", "10.0.0.1")

    with pytest.raises(TooManyAttemptsError):
        blocked.submit("anna", "10.0.0.1")


def test_who_has_failed_least_is_next(blocked):
    for number in range(6):
        blocked.submit(f"guess-{number}", "10.0.0.1")
    last = blocked.submit("anna", "10.0.0.2")
    blocked.ends.set()
    last.result(WAIT_S)

    assert blocked.order[0] == "anna"


def test_few_wait_and_give_way_to_who_has_failed_less(blocked):
    answers = [blocked.submit(f"guess-{number}", "10.0.0.1") for number in range(MAX_WAITING)]

    with pytest.raises(TooManyAttemptsError):
        blocked.submit("another", "10.0.0.1")
    anna = blocked.submit("anna", "10.0.0.2")
    blocked.ends.set()

    assert anna.result(WAIT_S) is None
    assert blocked.order[0] == "anna"
    with pytest.raises(TooManyAttemptsError):
        answers[-1].result(WAIT_S)


def test_an_attempt_that_fails_by_itself_ends(attempts):
    def broken():
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        attempts.submit("anna", "10.0.0.1", broken).result(WAIT_S)
    assert attempts.submit("anna", "10.0.0.1", lambda: 1).result(WAIT_S) == 1


@pytest.fixture
def anna(make_client, shop_root, tmp_path):
    file = tmp_path / "users.toml"
    file.write_text(f'[users.anna]\npassword = "{hash_password("secret")}"\n')
    return make_client(shop_root, Guard(frozenset({HOST}), credentials=Credentials(file)))


def test_a_guesser_is_told_to_wait_and_who_is_in_stays_in(anna):
    assert anna.get("/health", auth=("anna", "secret")).status_code == 200

    told = [anna.get("/health", auth=("anna", f"guess {n}")) for n in range(MOST + 1)]

    assert [one.status_code for one in told] == [401] * MOST + [429]
    assert 0 < int(told[-1].headers["retry-after"]) <= WINDOW_S
    assert anna.get("/health", auth=("anna", "secret")).status_code == 200


def test_many_guesses_take_one_thread_and_no_page_waits_for_them(anna):
    assert anna.get("/health", auth=("anna", "secret")).status_code == 200
    told: list[int] = []
    guessers = [
        threading.Thread(
            target=lambda n=n: told.append(anna.get("/health", auth=(f"x{n}", "y")).status_code)
        )
        for n in range(60)
    ]
    for one in guessers:
        one.start()
    wait_until(lambda: told, lambda: "nobody was answered")

    before = len(told)
    assert anna.get("/health", auth=("anna", "secret")).status_code == 200
    hashing = [one for one in threading.enumerate() if one.name.startswith("log-in")]
    join(*guessers)

    assert before < 60
    assert hashing
    assert set(told) == {401, 429}
