"""A plan says where its letters may die again: of what still stands, or for the last time."""

import pytest

from streaming.broker import commands
from streaming.broker.redrive_letters import RedriveOptions
from streaming.queries.dead_letters.filters import DeadLetterFilter
from tests.unit.queries.redrives.letters import Shop

MINUTE_MS = 60_000


@pytest.fixture
def shop(tmp_path):
    """`work` had messages before a release, and its letters died a minute after it."""
    shop = Shop(tmp_path, letters=0)
    shop.broker.publish("", "work", "before")
    shop.broker.ack(*(one.ref for one in shop.broker.get("work", "first", 1)))
    deploy(shop, 1, "2.1")
    die(shop, 2)
    return shop


def deploy(shop, minute, version, service="worker", queue="work"):
    shop.broker.at(minute * MINUTE_MS)
    shop.broker.do(commands.Deployed(service=service, version=version, queues=(queue,)))


def die(shop, minute):
    shop.broker.at(minute * MINUTE_MS)
    shop.broker.publish("", "work", f"m{minute}")
    shop.kill("work", 1)


def test_a_release_before_the_deaths_that_is_still_the_latest_is_a_risk(shop):
    [risk] = shop.plan().risks

    assert (risk.queue, risk.is_final) == ("work", False)
    assert risk.change is not None
    assert risk.change.name == "worker 2.1"
    assert risk.since is not None
    assert risk.since.startswith("2020-09-13T12:28:40")


def test_a_later_release_may_have_repaired_it(shop):
    deploy(shop, 3, "2.2")

    assert shop.plan().risks == ()


def test_a_release_after_which_a_letter_died_repaired_nothing(shop):
    deploy(shop, 3, "2.2")
    die(shop, 4)

    [risk] = shop.plan().risks
    assert risk.change is not None
    assert risk.change.name == "worker 2.2"
    since = risk.since or ""
    assert since.startswith("2020-09-13T12:30:40"), "the first death after it"


def test_a_release_of_another_queue_repairs_nothing(shop):
    deploy(shop, 3, "1.0", "mailer", "mail")

    [risk] = shop.plan().risks
    assert risk.change is not None
    assert risk.change.name == "worker 2.1"


def test_letters_for_another_queue_do_not_meet_what_killed_them(shop):
    shop.broker.queue("other", dead_letter_exchange="", dead_letter_routing_key="dead")

    assert shop.plan(destination="queue", name="other").risks == ()


@pytest.mark.parametrize("exchange", [None, "missing"])
def test_a_target_without_a_dead_letter_exchange_is_a_risk(shop, exchange):
    more = {} if exchange is None else {"dead_letter_exchange": exchange}
    shop.broker.queue("other", **more)

    [risk] = shop.plan(destination="queue", name="other").risks
    assert (risk.queue, risk.change, risk.is_final) == ("other", None, True)


def test_what_is_discarded_or_matches_nothing_has_no_risk(shop):
    assert shop.plan(options=RedriveOptions(action="discard")).risks == ()
    assert shop.plan(DeadLetterFilter(queue="dead")).risks == ()
