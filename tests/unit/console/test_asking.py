"""What Kafka or a checkpoint has told is used for seconds, and then it is not known."""

import threading

from streaming.console import asking
from streaming.console.asking import Asking
from tests.fixtures.waiting import wait_until

PATIENT_S = 3_600.0


def test_an_answer_is_used_for_a_while_and_then_asked_for_again(monkeypatch):
    answers = iter(range(10))
    question = Asking[int]("numbers")
    assert question.get(lambda: next(answers), PATIENT_S) == 0
    assert question.get(lambda: next(answers), PATIENT_S) == 0

    monkeypatch.setattr(asking, "FRESH_S", 0.0)
    wait_until(lambda: question.get(lambda: next(answers), PATIENT_S) == 1)


def test_an_answer_of_before_a_pause_is_not_shown_as_one_of_now(monkeypatch):
    """A page after a pause once showed what was told before it, as if it were of now."""
    question = Asking[str]("words")
    assert question.get(lambda: "before", PATIENT_S) == "before"
    monkeypatch.setattr(asking, "FRESH_S", 0.0)
    monkeypatch.setattr(asking, "OLD_S", 0.0)
    is_told = threading.Event()

    def told():
        is_told.wait()
        return "now"

    assert question.get(told, 0.0) is None, "it does not answer yet"
    monkeypatch.setattr(asking, "OLD_S", PATIENT_S)
    is_told.set()
    wait_until(lambda: question.get(told, 0.0) == "now")


def test_nobody_waits_longer_than_the_first_who_asked(monkeypatch):
    monkeypatch.setattr(asking, "FRESH_S", 0.0)
    question = Asking[bool]("events")
    is_told = threading.Event()
    try:
        assert question.get(is_told.wait, 0.0) is None
        assert question.get(is_told.wait, 0.001) is None
    finally:
        is_told.set()
