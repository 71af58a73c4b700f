"""Which deliveries the refs and delivery ids of a settlement identify."""

import pytest

from streaming.broker import commands
from streaming.broker.channels.deliveries import PAGE_SIZE
from streaming.broker.events import Kind
from tests.builders import Broker


def with_messages(*bodies: str, cut: bool = False) -> Broker:
    broker = Broker(cut=cut)
    broker.queue("work")
    for body in bodies:
        broker.publish("", "work", body)
    broker.story()
    return broker


def test_a_ref_identifies_one_delivery_of_a_get():
    broker = with_messages("m1", "m2")
    broker.get("work", "g", count=2)

    broker.ack("g/1")

    assert broker.story() == ["m1 delivered in work", "m2 delivered in work", "m2 acked in work"]


def test_a_delivery_id_identifies_a_delivery_without_a_label():
    broker = with_messages("m1")
    (given,) = broker.get("work")

    broker.ack(given.delivery_id)

    assert (given.ref, given.delivery_id) == ("", "1.0.0")
    assert broker.story() == ["m1 delivered in work", "m1 acked in work"]


@pytest.mark.parametrize(
    "ref",
    [
        "g/1",
        "other/0",
        "g",
        "g/",
        "g/x",
        "g/-1",
        "g/²",
        "/0",
        "",
        "1.0.7",
        "1.9.0",
        "9.0.0",
        "1.0",
        "1.0.x",
        "1..0",
        "g/" + "9" * 5000,
        "1.0." + "9" * 5000,
    ],
)
def test_a_ref_without_an_unacked_delivery_is_reported_and_changes_nothing(ref):
    broker = with_messages("m1")
    broker.get("work", "g")

    answer = broker.answer(commands.Ack(refs=(ref,)))

    assert answer == {"missing": [ref]}
    assert broker.story() == ["m1 delivered in work"]
    assert broker.of_kind(Kind.SETTLE_MISSED) == [("", {"ref": ref})]


def test_a_delivery_id_is_found_in_a_later_batch():
    broker = with_messages("m1")
    (given,) = broker.get("work")
    broker.finish()

    assert broker.answer(commands.Ack(refs=("1.0.5000",))) == {"missing": ["1.0.5000"]}
    assert broker.answer(commands.Ack(refs=(given.delivery_id,))) == {}


def test_settling_a_delivery_twice_reports_it_as_missing():
    broker = with_messages("m1")
    broker.get("work", "g")
    broker.ack("g/0")

    assert broker.answer(commands.Reject(refs=("g/0",), requeue=True)) == {"missing": ["g/0"]}


@pytest.mark.parametrize("multiple", [False, True])
def test_a_user_cannot_settle_the_deliveries_of_another_user(multiple):
    """D3b."""
    broker = with_messages("m1")
    (given,) = broker.get("work", "g", user="ann")

    for ref in ("g/0", given.delivery_id):
        command = commands.Nack(refs=(ref,), multiple=multiple)
        assert broker.answer(command, user="bob") == {"missing": [ref]}
    assert broker.story() == ["m1 delivered in work"]


def test_a_settlement_with_a_channel_finds_only_deliveries_of_that_channel():
    broker = with_messages("m1", "m2")
    broker.get("work", "g", channel="c1")
    (second,) = broker.get("work", "g", channel="c2")

    assert broker.answer(commands.Ack(refs=(second.delivery_id,), channel="c1")) == {
        "missing": [second.delivery_id]
    }
    assert broker.answer(commands.Ack(refs=("g/0",), channel="c3")) == {"missing": ["g/0"]}
    assert broker.answer(commands.Ack(refs=("g/0",), channel="c1")) == {}
    assert broker.story()[2:] == ["m1 acked in work"]


def test_without_a_channel_a_ref_means_the_newest_channel_with_that_unacked_delivery():
    broker = with_messages("m1", "m2")
    broker.get("work", "g", channel="c1")
    broker.get("work", "g", channel="c2")

    broker.ack("g/0")
    broker.ack("g/0")

    assert broker.story()[2:] == ["m2 acked in work", "m1 acked in work"]


@pytest.mark.parametrize("cut", [False, True])
def test_a_label_whose_get_is_settled_means_the_consumer_of_that_label(cut):
    """The labels that a batch resolved are dropped at its end; the result must stay the same."""
    broker = with_messages("m1", "m2", cut=cut)
    broker.get("work", "a")
    broker.ack("a/0")
    broker.consume("work", "a")

    broker.ack("a/0")

    assert broker.story() == [
        "m1 delivered in work",
        "m1 acked in work",
        "m2 delivered in work",
        "m2 acked in work",
    ]


@pytest.mark.parametrize("cut", [False, True])
def test_a_label_whose_consumer_is_cancelled_means_the_older_consumer_of_that_label(cut):
    broker = with_messages("m1", cut=cut)
    broker.consume("work", "a")
    broker.do(commands.Cancel(label="a"))
    broker.consume("work", "a")
    broker.do(commands.Cancel(label="a"))

    broker.ack("a/0")

    assert broker.story() == ["m1 delivered in work", "m1 acked in work"]


@pytest.mark.parametrize("cut", [False, True])
def test_a_label_of_two_gets_means_the_later_get(cut):
    broker = with_messages("m1", "m2", "m3", cut=cut)
    broker.get("work", "g", count=2)
    broker.get("work", "g")

    broker.ack("g/0")

    assert broker.answer(commands.Ack(refs=("g/1",))) == {"missing": ["g/1"]}
    assert broker.story()[3:] == ["m3 acked in work"]


def test_a_get_with_automatic_ack_has_no_delivery_to_settle():
    """R-SET-5."""
    broker = with_messages("m1")
    (given,) = broker.get("work", "g", auto_ack=True)

    assert (given.ref, given.delivery_id) == ("g/0", "")
    assert broker.answer(commands.Reject(refs=("g/0",))) == {"missing": ["g/0"]}
    assert broker.story() == ["m1 consumed in work"]


@pytest.mark.parametrize("refs", [("g/0",), ("g/0", "g/1")])
def test_a_settlement_without_a_channel_stops_loading_channels_once_its_delivery_is_found(refs):
    broker = with_messages("m1", "m2", "m3")
    broker.get("work", "g", channel="old")
    broker.get("work", "g", count=2, channel="new")
    broker.finish()

    broker.ack(*refs)

    channels = broker.shard.state.channels
    assert [channels.is_loaded(number) for number in (1, 2)] == [False, True]


def test_a_ref_never_means_a_delivery_caused_by_its_own_settlement():
    broker = with_messages("m1")
    broker.consume("work", "c", channel="older", prefetch=1)
    broker.publish("", "work", "m2")
    broker.get("work", "g", channel="newer")
    broker.ack("c/0", channel="older")
    broker.finish()

    broker.do(commands.Nack(refs=("g/0", "c/1"), requeue=True))

    missed = [detail["ref"] for _queue, detail in broker.of_kind(Kind.SETTLE_MISSED)]
    assert missed == ["c/1"]
    assert broker.deliveries()[-1] == "c/1 m2"


@pytest.mark.parametrize("cut", [False, True])
def test_a_delivery_id_is_unacked_until_it_is_settled_and_an_unknown_one_never_is(cut):
    broker = Broker(cut=cut)
    broker.queue("q")
    broker.publish("", "q", "m1")
    (given,) = broker.get("q", "g")
    channel, consumer, number = given.delivery_id.split(".")
    unknown = [f"9.{consumer}.{number}", f"{channel}.99.{number}", f"{channel}.{consumer}.9"]

    before = broker.shard.state.channels.is_unacked(given.delivery_id)
    broker.ack("g/0")

    assert before
    assert not any(
        broker.shard.state.channels.is_unacked(each) for each in (given.delivery_id, *unknown)
    )


def test_acks_in_a_row_go_on_across_pages_up_to_a_gap():
    broker = with_messages(*[f"m{number}" for number in range(2_500)])
    broker.get("work", "g", count=2_500)
    broker.ack("g/2100")
    broker.story()

    answer = broker.answer(commands.Ack(refs=tuple(f"g/{number}" for number in range(10, 2_200))))

    assert answer == {"missing": ["g/2100"]}
    acked = [f"m{number} acked in work" for number in range(10, 2_200) if number != 2_100]
    assert [each for each in broker.story() if each.endswith("acked in work")] == acked


def test_exactly_a_page_of_deliveries_is_settled_at_once():
    broker = with_messages(*(f"m{number}" for number in range(PAGE_SIZE)))
    broker.get("work", "g", count=PAGE_SIZE)

    broker.ack(*(f"g/{number}" for number in range(PAGE_SIZE)))

    assert list(broker.shard.state.channels.unacked_copies()) == []


def test_the_unacked_copies_are_those_of_all_channels():
    broker = with_messages("m1", "m2", "m3")
    broker.get("work", "g", count=2)
    broker.consume("work", "c", channel="c1")

    found = list(broker.shard.state.channels.unacked_copies())

    broker.finish()
    delivered = [row.copy for row in broker.rows if row.kind is Kind.DELIVERED]
    assert sorted(found) == [copy.copy_id for copy in delivered if copy is not None]
    assert len(found) == 3
