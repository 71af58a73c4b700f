"""The outcome of a death names every target: those that accepted, refused or were excluded."""

import pytest

from streaming.broker.dead_letters import planning
from streaming.broker.events import DeathOutcome, Kind
from streaming.broker.message import NEVER
from tests.builders import Broker


def outcomes(broker: Broker) -> dict[str, DeathOutcome]:
    """The outcome of the last death in each queue."""
    return {queue: outcome for _, _, queue, outcome, _, _ in broker.shard.events.deaths()}


def a_cycle(*targets: str) -> Broker:
    """`a` dead-letters to `b`, and `b` to the exchange `out`: back to `a`, and to the targets."""
    broker = Broker()
    for name, dead_letter_exchange in (("a", "ring"), ("b", "out")):
        broker.exchange(dead_letter_exchange, "fanout")
        broker.queue(name, message_ttl=0, dead_letter_exchange=dead_letter_exchange)
    broker.bind("ring", "b")
    broker.bind("out", "a")
    for target in targets:
        broker.queue(target, max_length=1, overflow="reject-publish")
        broker.bind("out", target)
    return broker


def test_the_outcome_names_a_target_excluded_by_the_cycle_rule():
    broker = a_cycle("x")

    broker.publish("", "a", "m")

    outcome = outcomes(broker)["b"]
    assert (outcome.targets, outcome.outcome) == (("x",), "")
    assert (outcome.cycles, outcome.refused) == (("a",), ())


def test_the_outcome_names_a_full_target_beside_the_others():
    broker = a_cycle("full", "x")
    broker.publish("", "full", "before")

    broker.publish("", "a", "m")

    outcome = outcomes(broker)["b"]
    assert (outcome.targets, outcome.outcome) == (("x",), "")
    assert (outcome.cycles, outcome.refused) == (("a",), ("full",))
    assert outcome.reason == "expired"
    assert outcome.envelope.exchange == "out"
    assert [death.queue for death in outcome.envelope.deaths] == ["b", "a"]


def test_the_outcome_of_a_death_that_every_target_refuses_is_refused():
    broker = a_cycle("full", "also full")
    for queue in ("full", "also full"):
        broker.publish("", queue, "before")

    broker.publish("", "a", "m")

    outcome = outcomes(broker)["b"]
    assert (outcome.targets, outcome.outcome) == ((), "refused")
    assert (outcome.cycles, outcome.refused) == (("a",), ("also full", "full"))


def test_two_equal_messages_share_the_outcome_of_a_refusal():
    broker = a_cycle("full", "x")
    broker.publish("", "full", "before")
    before = len(list(broker.shard.events.deaths()))
    broker.publish("", "a", "m1")
    broker.publish("", "x", "m2")
    broker.publish("", "a", "m3")

    shared = [
        outcome
        for _, _, queue, outcome, _, _ in list(broker.shard.events.deaths())[before:]
        if queue == "b"
    ]

    assert [(outcome.targets, outcome.refused) for outcome in shared] == [
        (("x",), ("full",)),
        ((), ("full", "x")),
    ]


def test_of_two_messages_that_expire_together_the_second_finds_the_target_full():
    broker = Broker()
    broker.queue("full", max_length=1, overflow="reject-publish")
    dead_letter = {"dead_letter_exchange": "", "dead_letter_routing_key": "full"}
    broker.queue("a", message_ttl=5, **dead_letter)
    for body in ("m1", "m2"):
        broker.publish("", "a", body)

    broker.at(5)

    first, second = [outcome for _, _, _, outcome, _, _ in broker.shard.events.deaths()]
    assert (first.targets, first.refused, first.outcome) == (("full",), (), "")
    assert (second.targets, second.refused, second.outcome) == ((), ("full",), "refused")


def test_the_outcome_of_a_death_cut_by_the_limit_keeps_the_targets_excluded_as_cycles(monkeypatch):
    monkeypatch.setattr(planning, "MAX_DESCENDANTS", 3)
    broker = a_cycle("x0", "x1", "x2")

    broker.publish("", "a", "m")

    outcome = outcomes(broker)["b"]
    assert (outcome.targets, outcome.outcome) == (("x0", "x1"), "cascade_limit")
    assert outcome.cycles == ("a",)


def test_a_message_may_have_exactly_as_many_dead_letters_as_the_limit(monkeypatch):
    monkeypatch.setattr(planning, "MAX_DESCENDANTS", 3)
    broker = a_cycle("x0", "x1")

    broker.publish("", "a", "m")

    outcome = outcomes(broker)["b"]
    assert (outcome.targets, outcome.outcome) == (("x0", "x1"), "")


@pytest.mark.parametrize("count", [2**53, -(2**53), 2**70, "1", None, True])
def test_an_x_death_entry_of_a_client_without_queue_and_reason_is_kept_unchanged(count):
    """R-DEATH: such an entry matches no queue; a death in a queue of that name adds an entry."""
    broker = Broker(compat="3.10")
    broker.queue("dead")
    broker.queue("a", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    given = {"odd": 1, "count": count}

    broker.publish("", "a", "m", headers={"x-death": [given]})

    (delivery,) = broker.get("dead")
    deaths = delivery.copy.envelope.deaths
    assert [(death.queue, death.reason) for death in deaths] == [("a", "expired"), ("", "")]


def test_a_message_refused_and_dead_lettered_on_arrival_was_never_in_the_queue():
    """R-LEN-9: the copy has no position and no deadline; its dead letter names it as parent."""
    broker = Broker()
    broker.queue("dead")
    limits = {"max_length": 0, "overflow": "reject-publish-dlx"}
    broker.queue("full", **limits, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("a", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="full")

    broker.publish("", "a", "m")

    copies = {
        event.queue: event.copy
        for event in broker.everything()
        if event.kind is Kind.DIED and event.copy is not None
    }
    refused = copies["full"]
    assert (refused.position, refused.deadline_ms, refused.requeue_count) == (-1, NEVER, 0)
    assert refused.parent_copy_id == copies["a"].copy_id
    assert refused.copy_id > copies["a"].copy_id


def test_equal_messages_that_die_for_an_exchange_with_a_missing_alternate_warn_once():
    broker = Broker()
    broker.exchange("dlx", "fanout", arguments={"alternate-exchange": "gone"})
    broker.queue("a", message_ttl=0, dead_letter_exchange="dlx")

    for body in ("m1", "m2"):
        broker.publish("", "a", body)

    warning = {"exchange": "dlx", "missing_alternate_exchange": "gone"}
    assert broker.of_kind(Kind.WARNING) == [("", warning)]
    assert [line for line in broker.story() if "died" in line] == [
        f"{body} died in a, expired, to nowhere: no_route" for body in ("m1", "m2")
    ]
