"""The expiration of a publish: which texts are valid, and RabbitMQ's words for the others."""

import pytest

from streaming.broker.events import Kind
from tests.builders import START_MS, Broker
from tests.event_sentences import error_of
from topology.refusals import Refusal


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("0\t\x1b", '{leftover_string,"\\t\\e"}'),
        ('1"\\', '{leftover_string,"\\"\\\\"}'),
        ("1\x00a", "{leftover_string,[0,97]}"),
        ("1é", '{leftover_string,"Ã©"}'),
        ("1€", "{leftover_string,[226,130,172]}"),
        ("315360000001", "{value_too_large,315360000001}"),
        ("9" * 5_000, "{value_too_large," + "9" * 5_000 + "}"),
    ],
)
def test_r_ttl_6_an_invalid_expiration_is_refused(expiration, reason):
    broker = Broker()
    broker.queue("q")

    refusal = error_of(broker.publish("", "q", "m1", expiration=expiration))

    assert refusal is not None
    assert refusal.code == 406
    text = refusal.text.replace("\n", "").replace(" ", "")
    assert text == f"PRECONDITION_FAILED-invalidexpiration'{expiration.strip()}':{reason}"
    assert broker.depth("q") == 0


@pytest.mark.parametrize(
    ("compat", "given", "shown"),
    [("4.0", "+5000", "5000"), ("3.10", "+5000", "+5000"), ("4.0", "005", "5")],
)
def test_r_ttl_2_a_valid_expiration_has_the_form_of_the_rabbitmq_version(compat, given, shown):
    broker = Broker(compat=compat)
    broker.queue("q")
    broker.publish("", "q", "m1", expiration=given)

    (delivery,) = broker.get("q")

    assert delivery.copy.envelope.expiration == shown


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("+315360000001", "{value_too_large,315360000001}"),
        ("0" * 90 + "315360000001", "{value_too_large,315360000001}"),
        ("-007", "{value_negative,-7}"),
        ("-" + "9" * 100, "{value_negative,-" + "9" * 100 + "}"),
    ],
)
def test_r_ttl_6_the_refused_number_is_named_without_plus_sign_and_leading_zeros(
    expiration, reason
):
    broker = Broker()
    broker.queue("q")

    refusal = error_of(broker.publish("", "q", "m1", expiration=expiration))

    assert refusal is not None
    assert "".join(refusal.text.split()).endswith(reason)


@pytest.mark.parametrize(
    ("expiration", "ttl_ms"),
    [("315360000000", 315_360_000_000), ("0" * 79 + "5", 5), ("0" * 200, 0), ("-0", 0)],
)
def test_r_ttl_6_the_limit_itself_and_leading_zeros_are_valid(expiration, ttl_ms):
    broker = Broker()
    broker.queue("q")
    broker.consume("q", "c")

    broker.publish("", "q", "m1", expiration=expiration)

    (copy,) = [event.copy for event in broker.everything() if event.kind is Kind.ENQUEUED]
    assert copy is not None
    assert copy.envelope.ttl_ms == ttl_ms
    assert copy.deadline_ms == START_MS + ttl_ms


@pytest.mark.parametrize(
    ("expiration", "term"),
    [
        ("-1", "{value_negative,-1}"),
        ("+" + "9" * 19, "{value_too_large," + "9" * 19 + "}"),
        ("9" * 20, "{value_too_large,\n" + " " * 44 + "9" * 20 + "}"),
        ("1" + "x" * 9 + "," + "x" * 20, '{leftover_string,\n@"' + "x" * 9 + "," + "x" * 20 + '"}'),
    ],
)
def test_a_reason_is_broken_after_its_first_comma_where_it_would_pass_column_80(expiration, term):
    broker = Broker()
    broker.queue("q")

    refusal = error_of(broker.publish("", "q", "m1", expiration=expiration))

    start = f"invalid expiration '{expiration}': "
    indented = term.replace("@", " " * (len(start) + 1))
    assert refusal == Refusal(406, f"PRECONDITION_FAILED - {start}{indented}")


def test_what_is_in_a_line_before_the_reason_does_not_break_it():
    broker = Broker()
    broker.queue("q")

    refusal = error_of(broker.publish("", "q", "m1", expiration="1" + "\n" * 20))

    term = '{leftover_string,"' + "\\n" * 20 + '"}'
    start = "invalid expiration '1" + "\n" * 20 + "': "
    assert refusal == Refusal(406, f"PRECONDITION_FAILED - {start}{term}")
