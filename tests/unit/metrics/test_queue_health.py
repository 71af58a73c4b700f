"""The families that alerts about queues need, after batches of a broker."""

from typing import Any

import pytest

from streaming.config.alerts import AlertSettings
from streaming.config.types import InvalidConfigError
from streaming.metrics.figures import Unhandled
from streaming.metrics.queue_health import IDLE_S
from streaming.pipeline.traffic import BatchTraffic
from tests.unit.metrics.job import Batches, queue, report


@pytest.fixture
def batches():
    """A job that has run for an hour."""
    found = Batches()
    found.figures.started_s -= 3_600
    return found


def shown(batches, family):
    return {key[1]: value for key, value in batches.values().items() if key[0] == family}


def run(batches, *queues, kinds=None):
    batches.run(report(BatchTraffic(queues=list(queues), kinds=kinds or {})))


def unconsumed(batches):
    return shown(batches, "dlx_unconsumed_messages")


def test_a_queue_that_was_consumed_and_has_no_consumer_any_more_is_one(batches):
    run(batches, queue("work", ready=3), kinds={"work": {"delivered": 5}})
    assert unconsumed(batches) == {}  # it may be fetched from

    batches.figures.taken_s["/", "work"] -= IDLE_S + 1
    assert unconsumed(batches) == {"work": 3}

    run(batches, queue("work", ready=3, consumers=1))
    assert unconsumed(batches) == {}


def test_a_queue_without_an_exchange_for_its_dead_needs_no_delivery_before(batches):
    run(batches, queue("work", ready=3, dead_letters=False))

    assert unconsumed(batches) == {"work": 3}


@pytest.mark.parametrize(
    "numbers",
    [{"ready": 0}, {"ready": 3, "has_ttl": True}, {"ready": 3, "dead_letters": True}],
)
def test_the_steps_of_a_retry_need_no_consumer(batches, numbers):
    run(batches, queue("retry", **numbers))

    assert unconsumed(batches) == {}


def test_dead_letters_wait_for_a_decision_and_not_for_a_consumer(batches):
    run(batches, queue("dead", ready=3, dead_letters=False))
    batches.figures.unhandled = {("/", "dead"): Unhandled(3, 10.0)}
    assert unconsumed(batches) == {}

    run(batches, queue("dead", ready=5, dead_letters=False))
    assert unconsumed(batches) == {"dead": 2}


def test_nothing_is_said_before_the_deliveries_of_earlier_runs_are_known(batches):
    run(batches, queue("work", ready=3, dead_letters=False))
    batches.figures.is_seeded = False

    assert unconsumed(batches) == {}


def test_the_last_delivery_of_a_deleted_queue_is_forgotten(batches):
    run(batches, queue("work", ready=3), kinds={"work": {"consumed": 5}})
    batches.run(report(BatchTraffic(deleted=["work"])))

    assert batches.figures.taken_s == {}


def test_a_backlog_is_of_many_messages_that_do_not_wait_for_their_ttl(batches):
    run(
        batches,
        queue("short", ready=999),
        queue("long", ready=1_000),
        queue("longer", ready=70_000),
        queue("delay", ready=70_000, has_ttl=True),
    )

    assert list(shown(batches, "dlx_backlog_messages").items()) == [
        ("longer", 70_000),
        ("long", 1_000),
    ]


def test_a_ring_is_meant_to_be_full(batches):
    run(
        batches,
        queue("half", fill=0.5),
        queue("less", fill=0.4),
        queue("ring", fill=1.0, drops_head=True, dead_letters=False),
        queue("drops into an exchange", fill=0.9, drops_head=True, dead_letters=True),
        queue("refuses", fill=0.8, drops_head=False, dead_letters=False),
    )

    assert shown(batches, "dlx_queue_fill_ratio") == {
        "half": 0.5,
        "drops into an exchange": 0.9,
        "refuses": 0.8,
    }


def test_a_ring_at_rest_needs_no_consumer_and_one_of_dead_letters_is_not_meant_to_be_full(batches):
    ring = {"ready": 10, "drops_head": True, "dead_letters": False}
    run(batches, queue("ring", fill=1.0, **ring), queue("fills", fill=0.8, **ring))
    assert unconsumed(batches) == {"fills": 10}
    assert shown(batches, "dlx_queue_fill_ratio") == {}

    batches.figures.unhandled = {("/", "ring"): Unhandled(8, 10.0)}
    assert unconsumed(batches) == {"ring": 2, "fills": 10}
    assert shown(batches, "dlx_queue_fill_ratio") == {"ring": 1.0}

    batches.figures.unhandled = {}
    run(batches, queue("ring", fill=1.0, **ring), kinds={"ring": {"consumed": 1}})
    batches.figures.taken_s["/", "ring"] -= IDLE_S + 1
    assert unconsumed(batches) == {"ring": 10, "fills": 10}


def test_what_ended_the_last_run_is_told_until_a_batch_is_committed(batches):
    batches.figures.failure = "folds-differ"
    assert shown(batches, "dlx_failure") == {"folds-differ": 1}

    batches.run()
    assert shown(batches, "dlx_failure") == {}


def test_alerts_that_leave_queues_out_are_known():
    settings = AlertSettings(quiet={"DlxNoConsumer": ("nightly.*",)})
    assert settings.quiet == {"DlxNoConsumer": ("nightly.*",)}

    faults: tuple[tuple[Any, str], ...] = (
        ({"DlxNoConsumers": ["a"]}, "did you mean"),
        ({"DlxJobDown": ["a"]}, "no alert about queues"),
        ({"DlxNoConsumer": "a"}, "expected an array"),
        ([], "expected a table"),
    )
    for wrong, words in faults:
        with pytest.raises(InvalidConfigError, match=words):
            AlertSettings(quiet=wrong)
