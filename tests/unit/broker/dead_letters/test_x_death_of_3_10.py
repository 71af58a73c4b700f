"""Death records as RabbitMQ 3.10 keeps them, where 4.x differs (R-DEATH-5, R-DEATH-8, R-DLX-2)."""

from itertools import pairwise
from typing import Any

import pytest

from tests.builders import Broker

TIME = 1_600_000_000


def chain(compat: str, *names: str) -> Broker:
    """Queues in which messages expire at once, each dead-lettering to the next."""
    broker = Broker(compat=compat)
    for name, following in pairwise(names):
        broker.queue(
            name, message_ttl=0, dead_letter_exchange="", dead_letter_routing_key=following
        )
    broker.queue(names[-1])
    return broker


def headers_at(broker: Broker, queue: str) -> dict[str, Any]:
    (given,) = broker.get(queue)
    headers = broker.delivered_headers(given.copy)
    assert headers is not None
    return headers


@pytest.mark.parametrize(("compat", "order"), [("4.0", ["c", "b", "a"]), ("3.10", ["c", "a", "b"])])
def test_r_death_5_three_deaths_are_listed_in_the_order_of_3_10(compat, order):
    broker = chain(compat, "a", "b", "c", "end")
    broker.publish("", "a", "m1")

    assert [entry["queue"] for entry in headers_at(broker, "end")["x-death"]] == order


@pytest.mark.parametrize("given", [[], "odd", [{"queue": "a", "reason": "expired", "count": 4}]])
def test_r_death_8_a_clients_x_death_suppresses_the_first_death_headers_permanently(given):
    broker = chain("3.10", "a", "b", "end")
    broker.publish("", "a", "m1", headers={"x-death": given})

    assert set(headers_at(broker, "end")) == {"x-death"}


@pytest.mark.parametrize(
    ("compat", "count"),
    [("3.10", 5), ("4.0", 1)],
)
def test_r_death_8_a_clients_x_death_is_continued_on_3_10_and_overwritten_on_4_0(compat, count):
    broker = chain(compat, "a", "end")
    given = {"queue": "a", "reason": "expired", "count": 4, "mine": "kept"}
    broker.publish("", "a", "m1", headers={"x-death": [given, "odd"]})

    (entry,) = headers_at(broker, "end")["x-death"]

    assert entry["count"] == count
    assert ("mine" in entry) == (compat == "3.10")


@pytest.mark.parametrize("count", [10**30, True, "4", None])
def test_a_clients_count_that_is_no_amqp_integer_restarts_at_one(count):
    broker = chain("3.10", "a", "end")
    given = {"queue": "a", "reason": "expired", "count": count}
    other = {"queue": "other", "reason": "rejected", "count": count}
    broker.publish("", "a", "m1", headers={"x-death": [given, other]})
    broker.finish()

    entries = headers_at(broker, "end")["x-death"]

    assert [(entry["queue"], entry["count"]) for entry in entries] == [("a", 1), ("other", 0)]


@pytest.mark.parametrize(
    ("compat", "headers"), [("4.0", {"CC": ["x"], "mine": 1}), ("3.10", {"mine": 1})]
)
def test_r_dlx_2_a_dead_letter_routing_key_removes_the_cc_header_on_3_10(compat, headers):
    broker = chain(compat, "a", "end")
    broker.publish("", "a", "m1", headers={"CC": ["x"], "mine": 1})

    found = headers_at(broker, "end")

    assert {name: found[name] for name in found if not name.startswith("x-")} == headers


@pytest.mark.parametrize(
    ("compat", "keys"), [("4.0", ["b", "a", "d", "a"]), ("3.10", ["a", "b", "a", "d"])]
)
def test_r_death_2_bcc_keys_are_left_out_one_occurrence_each(compat, keys):
    broker = Broker(compat=compat)
    broker.queue("a", message_ttl=0, dead_letter_exchange="amq.fanout")
    broker.queue("end")
    broker.bind("amq.fanout", "end")
    broker.publish("", "a", "m1", headers={"CC": ["b", "a", "d"], "BCC": ["a"]})

    (entry,) = headers_at(broker, "end")["x-death"]

    assert entry["routing-keys"] == keys


@pytest.mark.parametrize(("compat", "keys"), [("4.0", []), ("3.10", ["b"])])
def test_r_death_2_bcc_keys_are_left_out_after_a_dead_letter_routing_key_too(compat, keys):
    broker = Broker(compat=compat)
    broker.queue("a", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="b")
    broker.queue("b", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="end")
    broker.queue("end")
    broker.publish("", "a", "m1", headers={"BCC": ["b", "none"]})
    broker.get("end", "first")

    (entry, _before) = headers_at(broker, "end")["x-death"]

    assert (entry["queue"], entry["routing-keys"]) == ("b", keys)


def test_r_death_1_an_entry_has_its_fields_in_order():
    broker = chain("4.0", "a", "end")
    broker.publish("", "a", "m1", expiration="5")

    headers = headers_at(broker, "end")

    (entry,) = headers["x-death"]
    assert list(entry) == [
        "count",
        "reason",
        "queue",
        "time",
        "exchange",
        "routing-keys",
        "original-expiration",
    ]
    assert entry["time"].seconds == TIME
    assert {name: headers[name] for name in headers if name != "x-death"} == {
        "x-first-death-reason": "expired",
        "x-first-death-queue": "a",
        "x-first-death-exchange": "",
        "x-last-death-reason": "expired",
        "x-last-death-queue": "a",
        "x-last-death-exchange": "",
    }


def test_r_death_4_the_time_is_that_of_the_first_death_of_the_pair():
    broker = Broker()
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="work")
    broker.publish("", "work", "m1")
    for second in (1, 2):
        broker.at(second * 1_000)
        broker.get("work", "g")
        broker.reject("g/0")

    (entry,) = headers_at(broker, "work")["x-death"]

    assert (entry["count"], entry["time"].seconds) == (2, TIME + 1)
