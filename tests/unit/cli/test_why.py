"""`dlx why`: from what people know to why it died, in words."""

import json

import pytest

from tests.builders import Broker
from tests.unit.queries.recording import Recording


def test_an_order_number_leads_to_who_died_where_and_why(dlx, shop_root):
    status, out, err = dlx("why", "0/0/2", "--tables", shop_root)

    assert (status, err) == (0, "")
    assert "it died in queue 'mail'" in out
    assert "TTL 500 ms, no consumer took it" in out
    assert "the dead letter went to 'dead'" in out
    assert "now it is ready in queue 'dead'" in out
    assert "dlx dead-letters redrive --id 0/0/2" in out


def test_the_id_of_a_publisher_is_said_with_where_it_is(dlx, shop_root):
    status, out, _ = dlx("why", "first", "--tables", shop_root)

    assert status == 0
    assert "first is in message_id of message 0/0/0" in out
    assert "anna rejected it on channel clerk" in out
    assert "Only dead letters were searched" in out


def test_what_nothing_has_is_a_finding_and_says_what_was_not_looked_at(dlx, shop_root):
    status, out, err = dlx("why", "no such order", "--tables", shop_root)

    assert (status, err) == (1, "")
    assert "nothing has no such order as an id, a value or a word" in out
    assert "Only dead letters were searched" in out


def test_json_has_the_answer_and_what_was_found(dlx, shop_root):
    status, out, _ = dlx("why", "first", "--json", "--tables", shop_root)

    answer = json.loads(out)
    assert status == 0
    assert [one["place"] for one in answer["found"]["messages"]] == ["message_id"]
    assert [one["queue"] for one in answer["why"]["deaths"]] == ["billing"]
    assert answer["why"]["deaths"][0]["reason"] == "rejected"
    assert list(answer["why"]["next"]) == [
        "dlx dead-letters show 0/0/0",
        "dlx dead-letters redrive --id 0/0/0",
    ]
    assert answer["found"]["unseen"]


def test_json_of_nothing_says_so_too(dlx, shop_root):
    status, out, _ = dlx("why", "no such order", "--json", "--tables", shop_root)

    answer = json.loads(out)
    assert status == 1
    assert (answer["why"], answer["found"]["messages"]) == (None, [])


@pytest.mark.parametrize("name", ["9/9/9", "0/0/999"])
def test_an_id_that_no_message_has_is_an_error(dlx, shop_root, name):
    status, out, err = dlx("why", name, "--tables", shop_root)

    assert (status, out) == (2, "")
    assert "there is no message" in err


def test_the_id_of_a_publisher_finds_a_message_that_never_died(dlx, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("invoices")
    broker.publish("", "invoices", "a", message_id="inv-1")
    recording.commit()
    status, out, _ = dlx("why", "inv-1", "--tables", recording.root)

    assert status == 0
    assert "message 0/0/0, published" in out
    assert "it did not die" in out


def test_messages_of_one_order_are_told_apart(dlx, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.exchange("shop", "topic")
    for number, name in enumerate(("orders", "mails")):
        broker.queue(name)
        broker.bind("shop", name, name)
        broker.publish("shop", name, '{"order": 17}', message_id=f"m-{number}")
        broker.get(name, name, 1)
        broker.reject(f"{name}/0")
    recording.commit()
    _, out, _ = dlx("why", "17", "--tables", recording.root)

    assert "m-0, published" in out
    assert "to shop with key 'mails'" in out
