"""At-least-once dead-lettering of quorum queues (docs/semantics.md section 18)."""

import pytest

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.message import NEVER
from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


def a_broker(*, cut: bool = False, **arguments: object) -> Broker:
    """A quorum queue `work` that dead-letters at least once to the exchange `dlx`."""
    broker = Broker(cut=cut, dead_letter_retry_ms=1_000, consumer_timeout_ms=None)
    broker.quorum(
        "work",
        dead_letter_exchange="dlx",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
        **arguments,
    )
    return broker


def reject(broker: Broker, body: str) -> None:
    broker.publish("", "work", body)
    broker.get("work", "g")
    broker.reject("g/0")


@CUT
def test_a_dead_letter_without_an_exchange_is_held_until_a_retry_finds_one(cut):
    """R-ALO-3; after the retry, the buffer is empty and no timer is left."""
    broker = a_broker(cut=cut)
    reject(broker, "m1")
    broker.exchange("dlx", "fanout")
    broker.queue("dead")
    broker.bind("dlx", "dead")

    broker.at(999)
    before = broker.story()
    broker.at(1_000)

    assert before == ["m1 enqueued in work", "m1 delivered in work", "m1 held in work"]
    assert broker.story() == ["m1 died in work, rejected, to dead", "m1 enqueued in dead"]
    assert broker.shard.overview().next_deadline_ms == 1 << 62


@CUT
def test_an_unroutable_dead_letter_is_retried_until_it_has_a_route(cut):
    broker = a_broker(cut=cut)
    reject(broker, "m1")
    reject(broker, "m2")
    broker.exchange("dlx", "direct")
    broker.queue("dead")
    broker.at(1_000)
    broker.story()
    broker.bind("dlx", "dead", "work")

    broker.at(2_000)

    assert broker.story() == [
        "m1 died in work, rejected, to dead",
        "m1 enqueued in dead",
        "m2 died in work, rejected, to dead",
        "m2 enqueued in dead",
    ]


@CUT
def test_dead_letters_refused_by_a_full_target_wait_for_the_next_retry(cut):
    broker = a_broker(cut=cut)
    for body in ("m1", "m2"):
        reject(broker, body)
    broker.exchange("dlx", "fanout")
    broker.queue("dead", max_length=1, overflow="reject-publish")
    broker.bind("dlx", "dead")
    broker.story()

    broker.at(1_000)
    first = broker.drain("dead")
    broker.at(2_000)

    assert (first, broker.drain("dead")) == (["m1"], ["m2"])


@CUT
def test_a_long_jump_in_time_retries_a_stuck_buffer_a_bounded_number_of_times(cut):
    """D11: a record from the far future causes 100 million retries; only the last are executed."""
    broker = a_broker(cut=cut)
    reject(broker, "m1")
    broker.exchange("instead", "fanout")
    broker.exchange("dlx", "fanout", arguments={"alternate-exchange": "instead"})
    broker.queue("dead", max_length=0, overflow="reject-publish", expires=10**11 - 5_000)
    broker.queue("later")
    broker.bind("dlx", "dead")
    broker.bind("instead", "later")
    broker.story()

    broker.at(10**11)

    assert broker.story() == [
        "m1 died in work, rejected, to later",
        "m1 enqueued in later",
    ]


@CUT
def test_a_target_that_accepted_its_copy_is_not_retried_even_if_it_is_full_now(cut):
    """R-ALO-2."""
    broker = a_broker(cut=cut)
    broker.exchange("dlx", "fanout")
    for name in ("a", "b"):
        broker.queue(name, max_length=1, overflow="reject-publish")
        broker.bind("dlx", name)
    broker.publish("", "b", "blocker")
    reject(broker, "m1")
    broker.drain("b")
    broker.story()

    broker.at(1_000)

    assert broker.story() == ["m1 died in work, rejected, to a, b", "m1 enqueued in b"]


def held_by_one_of_two(*, cut: bool) -> Broker:
    """`m1` has died; `a` accepted its dead letter, `b` refused it."""
    broker = a_broker(cut=cut)
    broker.exchange("dlx", "fanout")
    for name in ("a", "b"):
        broker.queue(name, max_length=1, overflow="reject-publish")
        broker.bind("dlx", name)
    broker.publish("", "b", "blocker")
    reject(broker, "m1")
    broker.story()
    return broker


def tried_without_and_with(broker: Broker, target: str) -> tuple[list[str], list[str]]:
    """The stories of a retry, and of the next one, before which a target of `dlx` is there."""
    broker.at(1_000)
    without = broker.story()
    broker.exchange("dlx", "fanout")
    broker.queue(target)
    broker.bind("dlx", target)
    broker.at(2_000)
    return without, broker.story()


@CUT
def test_a_dead_letter_that_was_accepted_is_done_if_no_route_is_left(cut):
    """R-ALO-3; the event names the queue that had accepted it."""
    broker = held_by_one_of_two(cut=cut)
    broker.do(commands.DeleteQueue(queue="a"))
    broker.do(commands.DeleteQueue(queue="b"))
    broker.story()

    broker.at(1_000)

    assert broker.story() == ["m1 died in work, rejected, to a"]
    assert broker.shard.overview().next_deadline_ms == NEVER


@CUT
def test_a_dead_letter_that_was_accepted_stays_held_without_its_exchange(cut):
    """R-ALO-3; the new exchange leads to a new target, and the event names both."""
    broker = held_by_one_of_two(cut=cut)
    broker.do(commands.DeleteExchange(exchange="dlx"))

    assert tried_without_and_with(broker, "c") == (
        [],
        ["m1 died in work, rejected, to a, c", "m1 enqueued in c"],
    )


@CUT
def test_a_dead_letter_waits_for_a_target_that_refused_it_and_is_gone(cut):
    """R-ALO-3: what the other target accepted is not enough."""
    broker = held_by_one_of_two(cut=cut)
    broker.do(commands.DeleteQueue(queue="b"))
    broker.story()

    assert tried_without_and_with(broker, "b") == (
        [],
        ["m1 died in work, rejected, to a, b", "m1 enqueued in b"],
    )


@CUT
def test_a_dead_letter_that_its_target_refuses_and_dead_letters_is_held_nevertheless(cut):
    """R-ALO-3, R-LEN-9: the target refuses the copy, which dies there at each retry."""
    broker = a_broker(cut=cut)
    broker.exchange("dlx", "fanout")
    broker.queue("dead", max_length=0, overflow="reject-publish-dlx")
    broker.bind("dlx", "dead")

    reject(broker, "m1")
    first = broker.story()[2:]
    broker.at(1_000)

    died = "m1 died in dead, maxlen, to nowhere: no_exchange"
    assert (first, broker.story()) == ([died, "m1 held in work"], [died])


def test_a_held_copy_counts_towards_the_limits_from_its_death_on():
    """R-LEN-17, R-LEN-15: the message that crosses the limit is accepted, the next is not."""
    broker = a_broker(max_length=1)
    broker.publish("", "work", "m1")
    broker.publish("", "work", "m2")
    broker.get("work", "g", count=2)
    broker.reject("g/0", "g/1")
    broker.story()

    broker.publish("", "work", "m3")

    assert broker.story() == ["m3 refused by work"]


@pytest.mark.parametrize("limit", [{"max_length": 5}, {"max_length_bytes": 10}])
def test_held_copies_count_towards_the_soft_limit_that_accepts_publishes_again(limit):
    """R-LEN-15, R-LEN-17: publishes are accepted again at four fifths of the limit."""
    broker = a_broker(**limit)
    for body in ("m0", "m1"):
        broker.publish("", "work", body)
    broker.get("work", "held", count=2)
    broker.reject("held/0", "held/1")
    for body in ("m2", "m3", "m4", "m5"):  # six in all: blocked
        broker.publish("", "work", body)
    broker.story()

    broker.get("work")
    broker.publish("", "work", "at five")
    broker.get("work")
    broker.publish("", "work", "at four")

    assert broker.story() == [
        "m2 delivered in work",
        "at five refused by work",
        "m3 delivered in work",
        "at four enqueued in work",
    ]


def test_a_dead_letter_that_left_the_buffer_no_longer_counts():
    broker = a_broker()
    for body in ("m", "longer", "longest"):
        reject(broker, body)
    held = broker.shard.overview().queues["work"]
    broker.exchange("dlx", "fanout")
    broker.queue("dead")
    broker.bind("dlx", "dead")

    broker.at(1_000)

    left = broker.shard.overview().queues["work"]
    assert (held.held, held.held_bytes) == (3, 14)
    assert (left.held, left.held_bytes) == (0, 0)


def test_the_event_of_a_held_copy_has_the_reason():
    broker = a_broker()

    reject(broker, "m1")

    assert broker.of_kind(Kind.HELD) == [("work", {"reason": "rejected"})]


def test_a_purge_keeps_the_buffer_and_a_deletion_discards_it():
    """R-ALO-6."""
    broker = a_broker()
    reject(broker, "m1")
    broker.publish("", "work", "m2")
    broker.story()

    purged = broker.answer(commands.Purge(queue="work"))
    deleted = broker.answer(commands.DeleteQueue(queue="work"))

    assert (purged, deleted) == ({"purged": 1}, {"deleted_ready": 0})
    assert broker.story() == ["m2 purged in work", "m1 deleted in work"]


ALO = {"dead-letter-exchange": "dlx", "dead-letter-strategy": "at-least-once"}
REJECTING = {**ALO, "overflow": "reject-publish"}


def a_broker_with_a_policy(*, cut: bool = False) -> Broker:
    """The same, but a policy asks for it; the queue has at most 3 messages."""
    broker = Broker(cut=cut, dead_letter_retry_ms=1_000, consumer_timeout_ms=None)
    broker.quorum("work", max_length=3)
    broker.policy("p", "^work$", REJECTING)
    return broker


@CUT
@pytest.mark.parametrize(
    "definition",
    [
        None,
        {"overflow": "reject-publish"},
        {**ALO, "overflow": "drop-head"},
        {**REJECTING, "dead-letter-strategy": "at-most-once"},
        {key: value for key, value in REJECTING.items() if key != "dead-letter-exchange"},
    ],
)
def test_r_alo_7_held_copies_are_lost_when_the_queue_no_longer_dead_letters_at_least_once(
    cut, definition
):
    """Even if its dead-letter exchange could take them now; the limit has room again at once."""
    broker = a_broker_with_a_policy(cut=cut)
    for body in ("m1", "m2", "m3"):
        reject(broker, body)
    broker.exchange("dlx", "fanout")
    broker.queue("dead")
    broker.bind("dlx", "dead")
    broker.story()

    if definition is None:
        broker.do(commands.ClearPolicy(name="p"))
    else:
        broker.policy("p", "^work$", definition)
    broker.publish("", "work", "later")

    assert broker.story() == [
        *[f"m{n} died in work, rejected, to nowhere: strategy_changed" for n in (1, 2, 3)],
        "later enqueued in work",
    ]
    overview = broker.shard.overview()
    assert (overview.queues["work"].held, overview.queues["work"].held_bytes) == (0, 0)
    assert overview.next_deadline_ms == NEVER
    assert broker.at(86_400_000).story() == []


def test_r_alo_7_targets_that_had_accepted_a_lost_copy_keep_theirs():
    broker = a_broker_with_a_policy()
    broker.exchange("dlx", "fanout")
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.queue("dead")
    broker.bind("dlx", "full")
    broker.bind("dlx", "dead")
    reject(broker, "m1")
    broker.story()

    broker.do(commands.ClearPolicy(name="p"))

    [(*_, outcome, targets)] = broker.finish().events.deaths()
    assert (outcome, targets) == ("strategy_changed", ("dead",))
    assert broker.drain("dead") == ["m1"]


@CUT
def test_r_alo_7_copies_that_die_after_the_strategy_is_back_are_held_again(cut):
    broker = a_broker_with_a_policy(cut=cut)
    reject(broker, "m1")
    broker.do(commands.ClearPolicy(name="p"))
    broker.policy("p", "^work$", REJECTING)
    broker.story()

    reject(broker, "m2")
    broker.exchange("dlx", "fanout")
    broker.queue("dead")
    broker.bind("dlx", "dead")
    held = broker.story()[2:]
    broker.at(1_000)

    assert held == ["m2 held in work"]
    assert broker.story() == ["m2 died in work, rejected, to dead", "m2 enqueued in dead"]


@CUT
def test_r_alo_3_a_changed_policy_retries_at_once_what_had_no_target(cut):
    """What a target refused waits for its retry all the same."""
    broker = a_broker_with_a_policy(cut=cut)
    reject(broker, "no exchange")
    broker.exchange("dlx", "fanout")
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.bind("dlx", "full")
    reject(broker, "refused")
    broker.exchange("other", "fanout")
    broker.queue("dead")
    broker.bind("other", "dead")
    broker.story()

    broker.policy("p", "^work$", {**REJECTING, "dead-letter-exchange": "other"})
    at_once = broker.story()
    broker.at(1_000)

    assert at_once == [
        "no exchange died in work, rejected, to dead",
        "no exchange enqueued in dead",
    ]
    assert broker.story() == ["refused died in work, rejected, to dead", "refused enqueued in dead"]


def test_r_alo_3_no_timer_is_left_if_a_changed_policy_empties_the_buffer():
    broker = a_broker_with_a_policy()
    reject(broker, "m1")
    broker.queue("dead")

    broker.policy(
        "p",
        "^work$",
        {**REJECTING, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
    )

    assert broker.drain("dead") == ["m1"]
    broker.finish()
    assert broker.shard.overview().next_deadline_ms == NEVER


def test_a_dead_letter_excluded_from_every_target_by_the_cycle_rule_stays_held():
    """R-ALO-5."""
    broker = a_broker(message_ttl=0)
    broker.exchange("dlx", "fanout")
    broker.bind("dlx", "work")

    broker.publish("", "work", "m1")

    assert broker.story() == ["m1 enqueued in work", "m1 held in work"]


def test_a_missing_alternate_exchange_of_a_dead_letter_exchange_causes_a_warning():
    broker = a_broker()
    broker.exchange("dlx", "fanout", arguments={"alternate-exchange": "gone"})

    reject(broker, "m1")

    assert broker.of_kind(Kind.WARNING) == [
        ("", {"exchange": "dlx", "missing_alternate_exchange": "gone"})
    ]
