import asyncio
import json
from itertools import product
from typing import Any

import pytest

from streaming.amqp import methods as m
from streaming.management.listing import Listing

ITEMS: list[dict[str, Any]] = [
    {"name": "b", "vhost": "/", "n": 2, "s": {"x": {"y": 1}, "z": 2}},
    {"name": "a", "vhost": "/", "n": 10},
    {"name": "C", "vhost": "/", "n": None},
]


def reply(query, items, default=("vhost", "name")):
    document = asyncio.run(_sent(Listing(query, default).reply(items)))
    return json.loads(document)


async def _sent(answer):
    pieces = []

    async def send(message):
        pieces.append(message.get("body", b""))

    response = await answer
    await response({"method": "GET"}, None, send)
    return b"".join(pieces)


def names(items):
    return [item["name"] for item in items]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["C", "a", "b"]),
        ({"sort": "n"}, ["b", "a", "C"]),
        ({"sort": "n", "sort_reverse": "true"}, ["C", "a", "b"]),
        ({"sort": "s.x.y"}, ["C", "a", "b"]),
        ({"sort": "nothing.there"}, ["C", "a", "b"]),
        ({"name": "a"}, ["C", "a", "b"]),
    ],
)
def test_orders(query, expected):
    assert names(reply(query, ITEMS)) == expected


@pytest.mark.parametrize(
    ("query", "expected", "filtered"),
    [
        ({"page": "1", "page_size": "2"}, ["C", "a"], 3),
        ({"page": "2", "page_size": "2"}, ["b"], 3),
        ({"page": "1", "name": "c"}, ["C"], 1),
        ({"page": "1", "name": "^[ab]$", "use_regex": "true"}, ["a", "b"], 2),
        ({"page": "1", "name": "nothing"}, [], 0),
    ],
)
def test_pages(query, expected, filtered):
    page = reply(query, ITEMS)

    assert names(page["items"]) == expected
    assert (page["filtered_count"], page["total_count"]) == (filtered, 3)
    assert page["page_count"] == -(-filtered // page["page_size"])


def test_no_page_is_as_far_as_a_number_of_many_digits(api):
    number = "9" * 20

    assert api.refusal("GET", f"queues?page={number}") == (
        400,
        "page_out_of_range",
        f"Page out of range, page: {number} page size: 100, len: 0",
    )
    assert api.refusal("GET", f"exchanges?page={number}&sort=type")[1] == "page_out_of_range"
    assert api.refusal("GET", f"queues?page={number * 5}")[1] == "bad_request"


def test_columns():
    query = {"columns": "name,s.x.y,nothing,n.deep"}

    assert reply(query, ITEMS[:1]) == [{"name": "b", "n": 2, "s": {"x": {"y": 1}}}]
    assert reply({"columns": "nothing"}, ITEMS[:1]) == [[]]
    assert reply({"columns": "s.nothing"}, ITEMS[:1]) == [{"s": []}]


def test_columns_go_into_lists_of_objects_and_not_into_what_rabbitmq_keeps_whole(api, amqp):
    api.put("policies/%2F/p", {"pattern": "q", "definition": {"max-length": 5, "expires": 9}})
    api.put("queues/%2F/q", {"arguments": {"x-max-length": 3}})
    amqp.send(1, m.BasicConsume(queue="q", consumer_tag="c"))

    def answer(path, columns):
        return api.get(f"{path}?columns={columns}")

    queue = "queues/%2F/q"
    for list_of_objects, part in (
        (answer(queue, "consumer_details.queue.name"), {"queue": {"name": "q"}}),
        (answer(queue, "consumer_details.nothing"), []),
        (answer("definitions/%2F", "policies.name"), {"name": "p"}),
        (answer("definitions/%2F", "policies.definition.expires"), {"definition": {"expires": 9}}),
    ):
        assert list(list_of_objects.values()) == [[part]]
    assert answer("policies/%2F/p", "definition.expires") == {"definition": {"expires": 9}}
    assert answer("overview", "listeners.port") == {"listeners": [{"port": 5672}, {"port": 15672}]}
    for path, member in (
        (queue, "arguments"),
        ("users/guest", "limits"),
        ("definitions", "vhosts"),
        ("overview", "object_totals"),
        ("overview", "queue_totals"),
        ("overview", "churn_rates"),
    ):
        assert answer(path, f"{member}.nothing") == answer(path, member)


def test_values_of_any_kind_have_erlangs_order():
    items = [{"v": value} for value in ([1], "text", True, 3, None, 2.5, False, -1)]

    ordered = reply({"sort": "v"}, [*items, {"w": 7}], ())

    assert ordered == [
        {"v": -1},
        {"w": 7},
        *({"v": value} for value in (2.5, 3, False, None, True, "text", [1])),
    ]


def test_a_list_of_queues_is_ordered_by_what_only_statistics_tell(api):
    for number, name in enumerate(("few", "more", "most")):
        api.put(f"queues/%2F/{name}")
        for _ in range(number):
            message = {"properties": {}, "routing_key": name, "payload": ""}
            api.ask(
                "POST",
                "exchanges/%2F/amq.default/publish",
                message | {"payload_encoding": "string"},
            )

    query = "sort=messages_ready&sort_reverse=true&columns=name,messages_ready"
    assert api.get(f"queues?{query}") == [
        {"name": "most", "messages_ready": 2},
        {"name": "more", "messages_ready": 1},
        {"name": "few", "messages_ready": 0},
    ]
    page = api.get("queues?page=2&page_size=2&sort=messages&columns=name")
    assert [item["name"] for item in page["items"]] == ["most"]
    assert [one["name"] for one in api.get("queues?columns=name,durable&sort=name")] == [
        "few",
        "more",
        "most",
    ]


def test_very_long_lists_are_whole(api):
    definitions = {"queues": [{"name": f"q{number:04}"} for number in range(1_001)]}
    assert api.ask("POST", "definitions/%2F", definitions).status_code == 204

    queues = api.get("queues/%2F")

    assert [queue["name"] for queue in queues] == [f"q{number:04}" for number in range(1_001)]
    assert len(api.get("bindings/%2F")) == 1_001


def test_a_very_long_list_is_shared_until_something_is_declared(api):
    definitions = {"queues": [{"name": f"q{number:04}"} for number in range(1_001)]}
    api.ask("POST", "definitions/%2F", definitions)
    api.put("users/other", {"password": "o", "tags": "management"})
    first = api.get("queues")

    assert api.get("queues") == first
    assert len(api.get("queues?columns=name")[0]) == 1
    assert api.get("queues", user=("other", "o")) == []
    api.put("queues/%2F/new")
    assert len(api.get("queues")) == 1_002


@pytest.fixture
def many(api):
    """Queues of two vhosts, some with messages."""
    api.put("vhosts/other")
    api.put("permissions/other/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    for number in range(120):
        api.put(f"queues/{'other' if number % 3 else '%2F'}/q{number % 40}", {"durable": True})
    for number in (7, 7, 9, 30):
        message = {"properties": {}, "routing_key": f"q{number}", "payload": "x"}
        for vhost in ("%2F", "other"):
            body = {**message, "payload_encoding": "string"}
            api.ask("POST", f"exchanges/{vhost}/amq.default/publish", body)
    return api


PAGES: tuple[dict[str, str], ...] = (
    {},
    {"page": "1", "page_size": "500"},
    {"page": "2", "page_size": "13"},
    {"page": "1", "page_size": "9", "name": "^q[1-3]$", "use_regex": "true"},
    {"page": "1", "name": "q3", "disable_stats": "true"},
)
ORDERS = ("", "name", "vhost", "messages", "durable", "message_bytes")


def test_lists_of_queues_are_ordered_and_cut_as_if_they_were_made_as_a_whole(many):
    for path, without in product(("queues", "queues/other"), ("false", "true")):
        everything = many.ask("GET", path, params={"disable_stats": without}).json()
        for page, sort, reverse in product(PAGES, ORDERS, ("false", "true")):
            if page.get("disable_stats", "false") != without:
                continue
            query = {"sort": sort, "sort_reverse": reverse, **page}
            found = many.ask("GET", path, params=query).json()
            whole = reply(query, everything)
            assert found == whole, (path, query)


def test_a_long_list_is_the_same_as_a_short_one(many, monkeypatch):
    short = many.get("queues?columns=vhost,name,messages&sort=name")
    monkeypatch.setattr("streaming.management.sharing.MANY", 10)
    monkeypatch.setattr("streaming.management.pacing.STEP_S", 0.0)
    monkeypatch.setattr("streaming.management.pacing._RUN", 7)

    assert many.get("queues?columns=vhost,name,messages&sort=name") == short
    assert many.get("queues/other?page=1&page_size=500")["items"] == many.get("queues/other")


def _publish(api):
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    assert api.ask("POST", "exchanges/%2F/amq.default/publish", body).json() == {"routed": True}


def _get(api, mode):
    body = {"count": 1, "ackmode": mode, "encoding": "auto"}
    assert api.ask("POST", "queues/%2F/q/get", body).status_code == 200


CHANGES = [
    _publish,
    lambda api: _get(api, "ack_requeue_true"),
    lambda api: _get(api, "ack_requeue_true"),
    lambda api: _get(api, "ack_requeue_false"),
    lambda api: _get(api, "ack_requeue_false"),
    _publish,
    lambda api: api.ask("DELETE", "queues/%2F/q/contents"),
    lambda api: api.put("policies/%2F/p", {"pattern": "q", "definition": {"max-length": 5}}),
    lambda api: api.put("policies/%2F/p", {"pattern": "q", "definition": {"max-length": 6}}),
    lambda api: api.ask("DELETE", "policies/%2F/p"),
    lambda api: api.ask("DELETE", "queues/%2F/q"),
    lambda api: api.put("queues/%2F/q", {"durable": False, "auto_delete": True}),
]


def test_a_list_of_queues_is_of_now_whatever_happens_in_them(api):
    api.put("queues/%2F/q", {"durable": True})
    for change in CHANGES:
        change(api)
        if api.ask("GET", "queues/%2F/q").status_code == 404:
            assert api.get("queues") == []
            continue

        one = api.get("queues/%2F/q")
        (listed,) = api.get("queues")
        (of_page,) = api.get("queues?page=1")["items"]

        assert listed == of_page == {name: one[name] for name in listed}
        assert ("policy" in listed) == (one["policy"] is not None)
        assert ("message_stats" in listed) == ("message_stats" in one)


async def _status(management, path, meanwhile):
    """Ask; the second act comes when the answer has been begun."""
    messages = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/api/{path}",
        "raw_path": f"/api/{path}".encode(),
        "query_string": b"",
        "headers": [(b"authorization", b"Basic Z3Vlc3Q6Z3Vlc3Q=")],
        "client": ("127.0.0.1", 50_000),
    }

    async def send(message):
        messages.append(message)

    asking = asyncio.ensure_future(management(scope, None, send))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not messages, "the list was too short for this test"
    await meanwhile()
    await asking
    return messages[0]["status"]


@pytest.mark.parametrize("path", ["queues", "queues/detailed", "exchanges", "bindings"])
def test_a_vhost_may_be_deleted_while_a_list_is_made(api, management, broker, path, monkeypatch):
    monkeypatch.setattr("streaming.management.pacing.STEP_S", 0.0)
    api.put("vhosts/brief")
    for number in range(30):
        api.put(f"queues/brief/q{number}")

    async def delete():
        broker.delete_vhost("brief")
        await management.sample()

    assert asyncio.run(_status(management, path, delete)) == 200


def test_a_classic_queue_tells_the_timestamp_of_its_first_message(api, amqp):
    amqp.ask(m.QueueDeclare(queue="q"))
    amqp.ask(m.QueueDeclare(queue="quorum", durable=True, arguments={"x-queue-type": "quorum"}))

    def told():
        detailed = {one["name"]: one for one in api.get("queues/detailed")}
        assert all("head_message_timestamp" not in one for one in api.get("queues"))
        assert "head_message_timestamp" not in detailed["quorum"]
        single = api.get("queues/%2F/q")["head_message_timestamp"]
        assert single == detailed["q"]["head_message_timestamp"]
        return single

    assert told() is None
    amqp.publish("", "q", b"first", timestamp=1_700_000_000)
    amqp.publish("", "q", b"second", headers={"a": 1}, timestamp=1_600_000_000)
    amqp.publish("", "q", b"third")
    assert told() == 1_700_000_000
    amqp.ask(m.BasicGet(queue="q", no_ack=True))
    assert told() == 1_600_000_000
    amqp.ask(m.BasicGet(queue="q", no_ack=True))
    assert told() is None


@pytest.mark.parametrize("query", ["=", "a=1&=2", "%", "a=%4", "%zz=1", "a=%"])
def test_a_query_that_cannot_be_read_makes_no_sense_as_in_rabbitmq(api, query):
    answer = api.ask("GET", f"whoami?{query}")

    assert (answer.status_code, answer.content) == (400, b"")
    assert api.ask("PUT", f"vhosts/v?{query}", {}).status_code == 201


@pytest.mark.parametrize("query", ["&&", "a", "a=b=c", "&a=1&", "a=%e2"])
def test_a_query_that_looks_odd_is_read(api, query):
    assert api.ask("GET", f"whoami?{query}").status_code == 200


def test_the_first_of_two_parameters_of_a_name_counts(api):
    queues = api.get("exchanges/%2F?columns=name&columns=vhost&page=1&page=2")["items"]

    assert {"name": "amq.topic"} in queues
