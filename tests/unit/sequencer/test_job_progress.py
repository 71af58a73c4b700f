"""How far the job is, as its heartbeats say."""

import json

import pytest

from streaming.broker.sequence.log_fold import Terms
from streaming.sequencer import job_progress
from streaming.sequencer.job_progress import HeardJob


def alive(next_offset: int | None) -> bytes:
    return json.dumps({"type": "alive", "log": {"next_offset": next_offset}}).encode()


@pytest.mark.parametrize("beat", [alive(None), b'{"log": null}', b"{}", b"not json", None])
def test_a_heartbeat_that_does_not_say_how_far_the_job_is_leaves_that_as_it_was(beat):
    heard = HeardJob()
    heard.note("/", beat)
    assert heard.of("/") is None

    heard.note("/", alive(17))
    heard.note("/", beat)

    assert heard.of("/") == 17
    assert heard.of("other") is None


def test_a_heartbeat_says_on_which_terms_the_job_folds_the_log(monkeypatch):
    heard = HeardJob()
    heard.note("/", alive(17))
    assert heard.terms_of("/") is None, "that of an earlier version does not"

    log = {"next_offset": 17, "core_version": 7, "rules": "abc"}
    heard.note("/", json.dumps({"type": "alive", "log": log}).encode())
    assert heard.terms_of("/") == Terms(7, "abc")
    assert heard.terms_of("other") is None

    monkeypatch.setattr(job_progress, "FOLLOWED_S", 0.0)
    assert heard.terms_of("/") is None


def test_a_job_that_was_silent_for_long_does_not_follow(monkeypatch):
    heard = HeardJob()
    heard.note("/", alive(17))

    monkeypatch.setattr(job_progress, "FOLLOWED_S", 0.0)

    assert heard.of("/") is None
