"""The webhook, against a real HTTP server that answers, refuses, hangs or is not there."""

import hashlib
import hmac
import logging
import time

import attrs
import msgspec
import pytest

from streaming.config.alerts import AlertSettings
from streaming.config.job import JobSettings
from streaming.config.model import JobConfig
from streaming.config.types import InvalidConfigError
from streaming.embedded.kafka.ports import free_port
from streaming.metrics.alerting import alerter as module
from streaming.metrics.alerting import webhook as sending
from streaming.metrics.alerting.alerter import Alerter
from streaming.metrics.alerting.conditions import Alert
from streaming.metrics.alerting.notices import (
    KEPT_FILE,
    MOST,
    SETTLE_S,
    Kept,
    Notice,
    Notices,
    document,
)
from streaming.metrics.alerting.webhook import (
    SecretError,
    Webhook,
    WebhookError,
    pause_s,
    read_secret,
    signature,
)
from streaming.metrics.alerts import shipped_alerts
from streaming.metrics.service import Metrics
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import wait_until
from tests.unit.metrics.job import CLOSED, Batches

SECRET = b"0123456789abcdef"
WORK = Alert("DlxNoConsumer", (("vhost", "/"), ("queue", "work")))
DISK = Alert("DlxDiskFillsUp", ())


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.open.set()
    server.shutdown()
    server.server_close()


class Job:
    """The figures of a job whose gate is closed or open, and its alerts."""

    def __init__(self, url, kept=None):
        self.batches = Batches()
        self.figures = self.batches.figures
        self.figures.disk_path = "/"
        self.kept = kept or Kept()
        self.saved: list[Kept] = []

        def save(kept):
            self.saved.append(msgspec.json.decode(msgspec.json.encode(kept), type=Kept))

        hook = Webhook(url, SECRET)
        self.alerter = Alerter(self.figures, hook, self.kept, save, 20_000, every_s=0.05)

    def fail(self, rows):
        self.figures.unexplained = rows


@pytest.fixture
def quick(monkeypatch):
    """Pauses and timeouts of milliseconds."""
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(sending, "MOST_PAUSE_S", 0.05)
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.3)


def test_an_alert_is_told_once_when_it_begins_and_once_when_it_ends(receiver):
    job = Job(receiver.url)
    job.figures.console_url = "https://dlx.example.com"
    job.alerter.start()

    job.fail(3)
    wait_until(lambda: receiver.states == [("DlxUnexplained", "firing")])
    wait_until(lambda: job.saved and job.saved[-1].notices[0].is_told)
    job.fail(0)
    wait_until(lambda: len(receiver.told) == 2)
    job.alerter.stop()

    begin, end = receiver.told
    assert begin["id"].removesuffix("-firing") == end["id"].removesuffix("-resolved")
    assert begin == {
        "id": begin["id"],
        "job": "orders",
        "alert": "DlxUnexplained",
        "state": "firing",
        "severity": "critical",
        "labels": {},
        "value": 3,
        "summary": "The balance does not close: 3 rows of the ledger are unexplained",
        "action": "dlx balance names each of them.",
        "runbook": "docs/alerts.md#dlxunexplained",
        "console": begin["console"],
        "began_at": begin["began_at"],
        "ended_at": None,
    }
    assert begin["console"].startswith("https://dlx.example.com/?as_of=%40")
    assert (end["state"], end["began_at"]) == ("resolved", begin["began_at"])
    assert end["ended_at"] >= end["began_at"]
    assert job.figures.notified == {"sent": 2}
    assert job.saved[-1] == Kept()


def test_a_message_is_signed_as_the_documentation_says(receiver):
    Webhook(receiver.url, SECRET, now=lambda: 1_764_108_000.9).tell({"alert": "é"})

    [head], [body] = receiver.heads, receiver.bodies
    assert head["path"] == "/hook?team=a"
    assert head["X-Dlx-Timestamp"] == "1764108000"
    digest = hmac.new(SECRET, b"1764108000." + body, hashlib.sha256).hexdigest()
    assert head["X-Dlx-Signature"] == f"sha256={digest}"
    assert signature(SECRET, "1764108000", body) == f"sha256={digest}"

    Webhook(receiver.url, None).tell({})
    assert "X-Dlx-Signature" not in receiver.heads[-1]


def test_what_is_refused_is_tried_again_and_told_in_order(receiver, quick, caplog):
    receiver.status = 503
    job = Job(receiver.url)
    job.alerter.start()
    with caplog.at_level(logging.INFO):
        job.fail(1)
        wait_until(lambda: receiver.calls >= 3)
        job.fail(0)
        receiver.status = 200
        wait_until(lambda: len(receiver.told) == 2)
        job.alerter.stop()

    assert [state for _name, state in receiver.states] == ["firing", "resolved"]
    assert job.figures.notified["failed"] >= 3
    assert job.figures.notified["sent"] == 2
    warned = [one.message for one in caplog.records if "tried again" in one.message]
    assert len(warned) == 1
    assert "127.0.0.1 answered 503" in warned[0]
    assert "team=a" not in caplog.text  # the path may be a secret


def test_a_redirect_is_not_followed(receiver):
    receiver.status = 302

    with pytest.raises(WebhookError, match="answered 302"):
        Webhook(receiver.url, None).tell({})
    assert receiver.calls == 1


def test_a_receiver_that_hangs_neither_stops_the_job_nor_hides_later_alerts(receiver, quick):
    receiver.open.clear()
    job = Job(receiver.url)
    job.alerter.start()
    job.fail(1)
    wait_until(lambda: receiver.calls >= 2)

    job.batches.run(gate=CLOSED)  # a batch is taken over meanwhile
    assert job.figures.last_batch == 0
    receiver.open.set()
    wait_until(lambda: "DlxUnexplained" in [name for name, _state in receiver.states])
    job.alerter.stop()


def test_nobody_there_is_a_failure_and_not_an_error_of_the_job(quick):
    job = Job(f"http://127.0.0.1:{free_port()}/")
    job.alerter.start()
    job.fail(1)

    wait_until(lambda: job.figures.notified["failed"] >= 2)
    job.alerter.stop()

    assert job.saved[-1].notices[0].alert == "DlxUnexplained"
    assert not job.saved[-1].notices[0].is_told


def test_what_is_old_and_was_tried_in_vain_is_dropped_and_said(quick, monkeypatch, caplog):
    monkeypatch.setattr(module, "GIVE_UP_S", 0.0)
    job = Job(f"http://127.0.0.1:{free_port()}/")
    job.alerter.start()
    job.fail(1)

    wait_until(lambda: job.figures.notified["dropped"] == 1)
    job.alerter.stop()

    assert "not told any more: The balance does not close" in caplog.text


def test_a_restart_repeats_nothing_and_tells_what_was_not_told(receiver):
    told = Notice("a", "DlxUnexplained", {}, 3, time.time() - 60, is_told=True)
    untold = Notice("b", "DlxKafkaUnreachable", {}, 0, time.time() - 60)
    job = Job(receiver.url, Kept([told, untold]))
    job.fail(3)
    job.alerter.start()

    wait_until(lambda: receiver.told)
    job.alerter.stop()

    assert [one["id"] for one in receiver.told] == ["b-firing"]


def test_a_disk_that_cannot_be_written_does_not_silence_alerts(receiver, caplog):
    job = Job(receiver.url)

    def refuse(_kept):
        raise OSError("no space left")

    job.alerter = Alerter(
        job.figures, Webhook(receiver.url, None), Kept(), refuse, 20_000, every_s=0.05
    )
    job.fail(1)
    job.alerter.start()
    wait_until(lambda: receiver.told)
    wait_until(lambda: job.figures.notified["sent"] == 1)
    job.alerter.stop()

    assert caplog.text.count("could not be kept") == 1


def test_alerts_of_the_last_run_end_once_the_conditions_are_known_again():
    kept = Kept([Notice("a", "DlxNoConsumer", {"vhost": "/", "queue": "work"}, 3, 0, is_told=True)])
    notices = Notices(kept, started_s=1_000)

    notices.update(1_000 + SETTLE_S - 1, {})
    assert list(notices.untold()) == []
    notices.update(1_000 + SETTLE_S - 1, {WORK: 5})
    assert len(kept.notices) == 1
    notices.update(1_000 + SETTLE_S, {})
    assert [(one.id, one.ended_s) for one in notices.untold()] == [("a", 1_000 + SETTLE_S)]


def test_what_comes_again_before_its_end_is_told_has_an_id_of_its_own():
    notices = Notices(Kept(), started_s=0)
    notices.update(10, {WORK: 1})
    notices.update(20, {})
    notices.update(30, {WORK: 1})

    first, second = notices.untold()
    assert first.id != second.id
    assert (first.ended_s, second.ended_s) == (20, None)


def test_a_job_that_ends_since_folds_part_tells_it_before_and_does_not_repeat_it(receiver):
    job = Job(receiver.url)
    job.alerter.start()
    job.figures.failure = "folds-differ"
    job.alerter.stop()

    assert receiver.states == [("DlxDigestDiffers", "firing")]
    kept = job.saved[-1]
    assert (kept.failure, kept.notices[0].is_told) == ("folds-differ", True)

    again = Job(receiver.url, kept)
    again.figures.failure = kept.failure
    again.alerter.start()
    again.alerter.stop()
    assert len(receiver.told) == 1


def test_there_is_room_for_so_many_alerts():
    notices = Notices(Kept(), started_s=0)
    firing = {Alert("DlxNoConsumer", (("queue", str(number)),)): 1.0 for number in range(MOST + 7)}

    assert notices.update(10, firing) == 7
    assert len(notices.kept.notices) == MOST


def test_texts_are_those_of_the_rules_with_their_values():
    rules = shipped_alerts()
    about = {"vhost": "a b", "queue": "work"}

    def told(alert, value, labels=about):
        notice = Notice("a", alert, labels, value, 1_764_108_000.0)
        return document(notice, rules[alert], end=False, job="x", console_url="http://c")

    assert told("DlxNearMaxLength", 0.95)["summary"] == "Queue work has taken 95% of its limit"
    assert told("DlxBacklogGrowing", 2.28e6)["summary"] == "Queue work grows: 2280000 messages wait"
    assert "waiting in queue work for 4h 1m" in told("DlxDeadLettersUnhandled", 14_460.0)["summary"]
    assert "has 1.863GiB left" in told("DlxDiskFillsUp", 2e9, {})["summary"]
    assert told("DlxSlow", 0.0)["summary"].endswith("visible only after 0s")
    console = told("DlxNoConsumer", 1)["console"]
    assert console == "http://c/queue?vhost=a+b&queue=work&as_of=%401764108000"
    for alert in rules:
        assert "{{" not in f"{told(alert, 1.0)['summary']}{told(alert, 1.0)['action']}"


def test_pauses_grow_and_are_bounded():
    assert [pause_s(attempts) for attempts in (1, 2, 3, 7, 8, 10_000)] == [1, 2, 4, 60, 60, 60]


def test_a_secret_is_read_and_must_be_long(tmp_path):
    file = tmp_path / "secret"
    assert read_secret(None) is None
    with pytest.raises(SecretError, match="cannot read"):
        read_secret(str(file))
    file.write_bytes(b"short\n")
    with pytest.raises(SecretError, match="has 5 bytes"):
        read_secret(str(file))
    file.write_bytes(SECRET + b"\n")
    assert read_secret(str(file)) == SECRET


@pytest.mark.parametrize(
    "settings",
    [
        {"webhook": "ftp://example.com"},
        {"webhook": "https://user:password@example.com/"},
        {"webhook": "https://"},
        {"webhook_secret": "file"},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(InvalidConfigError):
        AlertSettings(**settings)


def test_a_job_keeps_what_ended_it_for_the_next_one(tmp_path, receiver):
    config = JobConfig(
        job=JobSettings(
            checkpoint_location=str(tmp_path / "checkpoint"), log_dir=str(tmp_path / "logs")
        ),
        alerts=AlertSettings(webhook=receiver.url),
    )
    first = Metrics(config, None)
    assert first.figures.failure is None
    first.failed("folds-differ")

    again = Metrics(config, None)
    assert again.figures.failure == "folds-differ"

    (tmp_path / "checkpoint" / KEPT_FILE).write_text("{")
    assert Metrics(attrs.evolve(config, alerts=AlertSettings()), None).figures.failure is None
