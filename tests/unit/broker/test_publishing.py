"""Publishing: checks in RabbitMQ's order, routes, confirms, returns, `immediate`, warnings."""

import pytest

from streaming.broker import commands, envelopes, publishing
from streaming.broker.envelopes import published_envelope
from streaming.broker.events import Actor
from streaming.broker.message import Envelope, publication_of
from streaming.broker.outbound import AnswerOut, ConfirmOut, with_actor
from streaming.broker.state import pages
from tests.builders import Broker
from tests.event_sentences import confirms, error_of, returns
from topology.refusals import Refusal


@pytest.mark.parametrize(
    ("exchange", "code", "text"),
    [
        ("none", 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        (
            "inner",
            403,
            "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'",
        ),
    ],
)
def test_r_route_8_and_10_a_refused_publish_reaches_no_queue(exchange, code, text):
    broker = Broker()
    broker.queue("q")
    broker.exchange("inner", "fanout", internal=True)
    broker.bind("inner", "q")

    out = broker.publish(exchange, "q", "m1", confirm=True, mandatory=True)

    assert error_of(out) == Refusal(code, text)
    assert (confirms(out), returns(out), broker.depth("q")) == ([], [], 0)


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"), [("q", "longstr"), (None, "void"), ({}, "table"), (1, "signedint")]
)
def test_r_cc_4_a_cc_header_that_is_no_array_is_refused(header, value, kind):
    broker = Broker()
    broker.queue("q")

    refusal = error_of(broker.publish("", "q", "m1", headers={header: value}))

    text = f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    assert refusal == Refusal(406, f"PRECONDITION_FAILED - {text}")
    assert broker.depth("q") == 0


def test_the_first_fault_in_rabbitmqs_order_is_reported():
    broker = Broker()

    codes = [
        error_of(broker.publish(exchange, "q", "m", expiration="x", headers={"CC": 1, "BCC": 2}))
        for exchange in ("none", "")
    ]

    assert [refusal and refusal.text.partition("{")[0] for refusal in codes] == [
        "NOT_FOUND - no exchange 'none' in vhost '/'",
        "PRECONDITION_FAILED - invalid expiration 'x': no_integer",
    ]


def test_r_cc_1_to_5_cc_and_bcc_add_keys_and_bcc_is_not_delivered():
    broker = Broker()
    for name in ("a", "b", "c"):
        broker.queue(name)

    broker.publish("", "a", "m1", headers={"CC": ["b", 7, "a"], "BCC": ["c", "none"]})
    broker.publish("", "a", "m2", headers={"BCC": ["c"]})

    assert [broker.depth(name) for name in ("a", "b", "c")] == [2, 1, 2]
    first, second = (one.copy for one in broker.get("c", count=2))
    assert broker.delivered_headers(first) == {"CC": ["b", 7, "a"]}
    assert first.envelope.routing_keys == ("a", "b", "a", "c", "none")
    assert broker.delivered_headers(second) == {}


@pytest.mark.parametrize("mandatory", [False, True])
def test_r_route_9_an_unroutable_message_is_acked_and_returned_if_mandatory(mandatory):
    broker = Broker()

    out = broker.publish("amq.direct", "k", "m1", mandatory=mandatory, confirm=True)

    expected = [(312, "NO_ROUTE", "amq.direct", "k")] if mandatory else []
    assert (returns(out), confirms(out)) == (expected, [True])
    assert isinstance(out[-1], ConfirmOut)
    assert broker.story() == ["m1 returned" if mandatory else "m1 unroutable"]


def test_a_publish_without_confirm_and_mandatory_has_no_reply():
    broker = Broker()
    broker.queue("q")

    assert broker.publish("", "q", "m1") == []
    assert broker.publish("", "none", "m2") == []


def test_r_len_9_equal_publishes_die_equally_at_a_full_queue():
    broker = Broker()
    broker.queue("full", max_length=0, overflow="reject-publish-dlx")

    for body in ("m1", "m2"):
        broker.publish("", "full", body)

    assert broker.story() == [
        f"{body} died in full, maxlen, to nowhere: no_exchange" for body in ("m1", "m2")
    ]


@pytest.mark.parametrize("confirm", [False, True])
def test_r_len_8_a_refused_publish_leaves_no_state(confirm):
    broker = Broker()
    broker.queue("full", max_length=0, overflow="reject-publish")

    out = broker.publish("", "full", "m1", confirm=confirm)

    assert confirms(out) == ([False] if confirm else [])
    assert broker.story() == ["m1 refused by full"]


def test_r_len_12_a_dead_letter_refused_by_its_target_is_lost_with_an_event():
    broker = Broker()
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.queue("work", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="full")

    broker.publish("", "work", "m1")

    assert broker.story() == [
        "m1 enqueued in work",
        "m1 died in work, expired, to nowhere: refused",
        "m1 refused by full",
    ]


@pytest.mark.parametrize(
    ("priority", "first"),
    [(-1, "plain"), (10**30, "odd"), (9, "odd"), (True, "odd")],
)
def test_a_priority_out_of_amqps_range_is_harmless(priority, first):
    broker = Broker()
    broker.queue("q", max_priority=5)
    broker.publish("", "q", "plain")
    broker.publish("", "q", "odd", priority=priority)
    broker.finish()

    assert broker.drain("q")[0] == first


def test_the_cache_of_publish_plans_is_bounded_and_does_not_change_results(monkeypatch):
    monkeypatch.setattr(publishing, "MAX_PLANS", 2)
    monkeypatch.setattr(envelopes, "MAX_KNOWN", 2)
    broker = Broker()
    for name in ("a", "b", "c", "d"):
        broker.queue(name)
    for _ in range(2):
        for name in ("a", "b", "c", "d"):
            broker.publish("", name, name)

    assert [broker.drain(name) for name in ("a", "b", "c", "d")] == [[n] * 2 for n in "abcd"]


def test_headers_exchanges_see_the_records_own_headers():
    broker = Broker()
    broker.queue("q")
    broker.bind("amq.headers", "q", arguments={"x-match": "all", "colour": "red"})

    broker.publish("amq.headers", "", "m1", kafka_headers={"colour": "red"})
    broker.publish(
        "amq.headers", "", "m2", headers={"colour": "blue"}, kafka_headers={"colour": "red"}
    )
    broker.publish(
        "amq.headers", "", "m3", headers={"colour": "red"}, kafka_headers={"colour": b"x"}
    )

    assert broker.drain("q") == ["m1", "m3"]


def test_a_refused_command_is_answered_with_its_reply_id():
    broker = Broker()

    (answer,) = broker.do(commands.Depth(queue="none", reply_id="r1"))

    refusal = Refusal(404, "NOT_FOUND - no queue 'none' in vhost '/'")
    assert answer == AnswerOut(0, Actor(None, "admin"), "depth", "r1", {}, refusal)


def test_r_len_8_a_full_queue_refuses_a_publish_without_confirm():
    broker = Broker()
    broker.queue("q", max_length=1, overflow="reject-publish")
    for number in range(3):
        broker.publish("", "q", f"m{number}")

    assert broker.story() == ["m0 enqueued in q", "m1 refused by q", "m2 refused by q"]


def test_r_len_12_a_dead_letter_reaches_the_target_that_is_not_full():
    broker = Broker()
    broker.exchange("dlx", "fanout")
    broker.queue("work", max_length=0, dead_letter_exchange="dlx")
    broker.queue("full", max_length=0, overflow="reject-publish")
    broker.queue("open")
    broker.bind("dlx", "full")
    broker.bind("dlx", "open")
    broker.publish("", "work", "m")

    assert (broker.depth("full"), broker.drain("open")) == (0, ["m"])
    assert "m refused by full" in broker.story()


def test_messages_that_are_alike_share_an_envelope_across_batches():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m1", expiration="5000")
    broker.finish()
    broker._publications.clear()  # noqa: SLF001 - as in another batch
    broker.publish("", "q", "m2", expiration="5000")

    first, second = (one.copy for one in broker.get("q", count=2))

    assert first.envelope is second.envelope


def test_the_known_envelopes_are_bounded(monkeypatch):
    monkeypatch.setattr(pages, "MAX_KNOWN", 2)
    broker = Broker()
    broker.queue("q", max_priority=9)
    for number in range(5):
        broker.publish("", "q", f"m{number}", priority=number)

    assert len(pages._known) <= 2  # noqa: SLF001 - nothing else shows it
    broker.finish()
    assert broker.drain("q") == ["m4", "m3", "m2", "m1", "m0"]


def test_the_envelope_of_a_publish_that_was_accepted_is_that_of_its_copies():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m1")
    copy = broker.everything()[-1].copy
    assert copy is not None

    publication = publication_of("", "q", {}, None)
    assert published_envelope(publication, broker.config.compat) == copy.envelope


def test_a_full_queue_behind_a_headers_exchange_dead_letters_what_it_rejects():
    broker = Broker()
    broker.queue(
        "full",
        max_length=0,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    broker.queue("dead")
    broker.exchange("x", "headers")
    broker.bind("x", "full", arguments={"kind": "a"})

    out = broker.publish("x", "", "m1", headers={"kind": "a"}, confirm=True)

    assert confirms(out) == [False]
    assert (broker.depth("full"), broker.depth("dead")) == (0, 1)


def test_a_plan_at_rest_finds_its_queues_again():
    broker = Broker()
    broker.queue("one")
    broker.queue("single")
    queues = broker.shard.state.queues
    used = (queues.named("one"), queues.named("single"))
    plan = publishing.PublishPlan(None, Envelope("", ("one",)), used, single=used[1:])

    plan.rest()
    assert (plan.queues, plan.single) == ((), ())

    plan.resume(queues)
    assert (plan.queues, plan.single) == (used, used[1:])


def test_what_a_client_is_told_can_be_told_to_another_channel():
    broker = Broker()
    broker.queue("q")
    [confirm] = broker.publish("", "q", "m1", confirm=True)
    [answer] = broker.do(commands.Depth(queue="q"))
    other = Actor("bob", "c9")

    assert with_actor(confirm, other).actor == other
    again = with_actor(answer, other)
    assert isinstance(answer, AnswerOut)
    assert again == answer._replace(actor=other)
