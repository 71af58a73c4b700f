"""Odd numbers and nulls in what is published and got, as RabbitMQ 4.0.5 takes them."""

import pytest

PUBLISH = "exchanges/%2F/amq.default/publish"
GET = "queues/%2F/q/get"


def publish(api, payload="x", **properties):
    body = {"routing_key": "q", "payload": payload, "payload_encoding": "string"}
    return api.refusal("POST", PUBLISH, {"properties": properties, **body})


def got(api, **members):
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto", **members}
    response = api.ask("POST", GET, asked)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def api_with_queue(api):
    api.put("queues/%2F/q", {"durable": True})
    return api


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("priority", 300, 44),
        ("priority", -1, 255),
        ("delivery_mode", 258, 2),
        ("timestamp", (1 << 64) + 5, 5),
        ("timestamp", 5, 5),
    ],
)
def test_of_a_number_that_is_too_large_the_high_bits_are_cut_off(api_with_queue, name, value, kept):
    api = api_with_queue
    body = {"routing_key": "q", "payload": "x", "payload_encoding": "string"}

    response = api.ask("POST", PUBLISH, {"properties": {name: value}, **body})

    assert response.json() == {"routed": True}
    assert [message["properties"] for message in got(api)] == [{name: kept}]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("content_type", ["not_string", "content_type"]),
        ("priority", ["not_int", "priority"]),
        ("timestamp", ["not_int", "timestamp"]),
    ],
)
def test_a_property_is_not_null(api_with_queue, name, reason):
    assert publish(api_with_queue, **{name: None}) == (400, "bad_request", reason)
    assert got(api_with_queue) == []


@pytest.mark.parametrize(
    ("count", "number"), [(1.5, 1), (2.999, 2), (0.5, 0), (-1, 4), (-2.5, 4), ("-1", 4), (0, 0)]
)
def test_a_negative_count_gets_all_and_a_fraction_is_cut_off(api_with_queue, count, number):
    for payload in "abcd":
        publish(api_with_queue, payload)

    messages = got(api_with_queue, count=count)

    assert [message["payload"] for message in messages] == list("abcd")[:number]


def test_truncate_is_a_number(api_with_queue):
    publish(api_with_queue, "hello")
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}

    refusal = api_with_queue.refusal("POST", GET, {**asked, "truncate": None})

    assert refusal == (400, "bad_request", ["not_integer", None])
    assert [message["payload"] for message in got(api_with_queue, truncate=2.9)] == ["he"]
