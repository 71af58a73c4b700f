"""Answers as terms of Erlang; the bytes are those that RabbitMQ 4.0.5 sent."""

import struct

import pytest

from streaming.management.bert import encoded

BERT = {"accept": "application/bert"}
GUEST = ("guest", "guest")


def _read(data):
    """A term and what follows it."""
    kind, rest = data[:1], data[1:]
    if kind == b"a":
        return rest[0], rest[1:]
    if kind == b"b":
        return struct.unpack(">i", rest[:4])[0], rest[4:]
    if kind == b"F":
        return struct.unpack(">d", rest[:8])[0], rest[8:]
    if kind == b"n":
        size = 2 + rest[0]
        value = int.from_bytes(rest[2:size], "little")
        return -value if rest[1] else value, rest[size:]
    if kind == b"w":
        name = rest[1 : 1 + rest[0]].decode()
        return {"true": True, "false": False, "null": None}.get(name, name), rest[1 + rest[0] :]
    if kind == b"j":
        return [], rest
    count, rest = struct.unpack(">I", rest[:4])[0], rest[4:]
    if kind == b"m":
        return rest[:count].decode(), rest[count:]
    found = []
    for _ in range(count):
        if kind == b"t" or rest[:2] == b"h\x02":
            name, rest = _read(rest if kind == b"t" else rest[2:])
            value, rest = _read(rest)
            found.append((name, value))
        else:
            item, rest = _read(rest)
            found.append(item)
    rest = rest if kind == b"t" else rest[1:]
    is_object = bool(found) and all(isinstance(one, tuple) for one in found)
    return dict(found) if kind == b"t" or is_object else found, rest


def _document(response):
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/bert"
    assert response.headers["content-length"] == str(len(response.content))
    assert response.content[:1] == b"\x83"
    found, rest = _read(response.content[1:])
    assert rest == b""
    return found


def test_a_user_is_the_bytes_of_rabbitmq(client):
    response = client.get("/api/whoami", auth=GUEST, headers=BERT)

    assert response.content.hex() == (
        "836c00000003"
        "680277046e616d656d000000056775657374"
        "68027704746167736c000000016d0000000d61646d696e6973747261746f726a"
        "6802771069735f696e7465726e616c5f75736572770474727565"
        "6a"
    )


def test_arguments_are_a_map_of_binaries_as_those_of_rabbitmq():
    item = {"arguments": {"x-queue-type": "classic"}, "consumers": 0, "rate": 0.0}

    assert encoded(item).hex() == (
        "6c00000003"
        "68027709617267756d656e7473"
        "74000000016d0000000c782d71756575652d747970656d00000007636c6173736963"
        "68027709636f6e73756d6572736100"
        "68027704726174654600000000000000006a"
    )


@pytest.mark.parametrize(
    "value", [0, 255, 256, -1, 1 << 31, -(1 << 31) - 1, 1 << 70, 1.5, True, None, "ü", "", [], [[]]]
)
def test_values(value):
    found, rest = _read(encoded(value))

    assert rest == b""
    assert found == value


def test_a_name_that_is_too_long_for_an_atom_is_a_binary():
    assert _read(encoded({"x" * 256: 1})) == ({"x" * 256: 1}, b"")


@pytest.mark.parametrize(
    "path",
    [
        "overview?columns=object_totals,listeners",
        "vhosts/%2F",
        "exchanges",
        "exchanges?page=2&page_size=2",
        "bindings",
        "queues?page=1&page_size=3&name=nosuch",
        "queues/%2F/q1?disable_stats=true",
    ],
)
def test_an_answer_is_the_same_in_both_forms(client, api, path):
    api.put("queues/%2F/q1", {"durable": True, "arguments": {"x-max-length": 5, "t": {"a": [1]}}})

    as_json = client.get(f"/api/{path}", auth=GUEST).json()

    assert _document(client.get(f"/api/{path}", auth=GUEST, headers=BERT)) == as_json


def test_a_list_of_many_pieces_is_one_list(client, api):
    names = [f"queue-{number:03d}" for number in range(200)]
    api.ask(
        "POST",
        "definitions",
        {"queues": [{"name": n, "vhost": "/", "durable": True, "arguments": {}} for n in names]},
    )

    for path in ("queues", "queues?page=1&page_size=150"):
        found = _document(client.get(f"/api/{path}", auth=GUEST, headers=BERT))
        items = found if isinstance(found, list) else found["items"]
        assert [one["name"] for one in items] == names[: len(items)]


def test_definitions_are_json_alone(client):
    assert client.get("/api/definitions", auth=GUEST, headers=BERT).status_code == 406
    assert client.get("/api/nosuch", auth=GUEST, headers=BERT).status_code == 404
    assert client.head("/api/exchanges", auth=GUEST, headers=BERT).content == b""


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ("application/bert, application/json;q=0.1", "bert"),
        ("application/json, application/bert", "bert"),
        ("application/bert, application/json", "json"),
        ("application/bert;q=0.5, application/json", "json"),
        ("application/bert;q=0.5, */*;q=0.8", "json"),
        ("application/bert, */*", "bert"),
        ("application/*, application/bert", "bert"),
        ("application/bert;q=0", "bert"),
        ("*/*;q=0.1, APPLICATION/BERT; q=0.1", "bert"),
        ("application/json;q=0, application/bert;q=0.1", "bert"),
        ("text/html, application/xml;q=0.9, */*;q=0.8", "json"),
        ("application/json,", "json"),
    ],
)
def test_a_client_says_what_it_wants_most(client, wanted, kind):
    response = client.get("/api/whoami", auth=GUEST, headers={"accept": wanted})

    assert response.headers["content-type"] == f"application/{kind}"
