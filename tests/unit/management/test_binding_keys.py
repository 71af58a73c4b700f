"""Keys of bindings, as a RabbitMQ 4.0.5 made them of the same arguments."""

from decimal import Decimal

import pytest

from streaming.management.binding_keys import properties_key
from topology.declarations import Binding
from topology.values import Timestamp

RECORDED = [
    ({"a": 1}, "~Ajat_Q"),
    ({"a": 255}, "~UaQmsw"),
    ({"a": 256}, "~lGfWrQ"),
    ({"a": -1}, "~ElVmZA"),
    ({"a": 2147483647}, "~b_hsEQ"),
    ({"a": 2147483648}, "~mY9-Sg"),
    ({"a": -2147483648}, "~uv8TjA"),
    ({"a": -2147483649}, "~SQLVNg"),
    ({"a": 1099511627776}, "~B_0fhA"),
    ({"a": 9223372036854775807}, "~vTONBA"),
    ({"a": -9223372036854775808}, "~1LcwLA"),
    ({"a": "text"}, "~2XPJ9A"),
    ({"a": ""}, "~ZkKYww"),
    ({"a": "ü€"}, "~hrGr7w"),
    ({"ü": 1, "z": 2, "Z": 3}, "~1Hn86w"),
    ({"a": True}, "~a2lJKQ"),
    ({"a": 1.5}, "~yo4NAg"),
    ({"a": 1.0}, "~j6r3_g"),
    ({"a": 1e300}, "~ydfObg"),
    ({"a": []}, "~jkxtaQ"),
    ({"a": [1, "x", True, [2], {"b": 1}]}, "~YlocTQ"),
    ({"a": {"c": 1, "b": "x", "a": {"z": 1}}}, "~hQPJKg"),
    ({"a": {}}, "~JBz3JQ"),
    ({"x-match": "all", "fmt": "pdf", "n": 3, "b": True}, "~arhmgg"),
    ({"a": [1, 2, 3]}, "~1nyIjg"),
    ({"k0": 0, "k1": 1, "k2": 2}, "~rm__iA"),
    ({"b": 1, "a": 2}, "~muH6_Q"),
    ({"$bytes": "eA=="}, "~3LBbkQ"),
    ({"a": {"$bytes": "eA=="}}, "~VC60Bg"),
    ({"a": {"$timestamp": 5}}, "~wudKrA"),
    ({"n": None}, "~LmSayA"),
    ({"d": Decimal("1.25")}, "~-ZhbpA"),
    ({"ts": Timestamp(1_767_225_600)}, "~qlUjfw"),
    ({"l": [True, None, "x"]}, "~XYwbag"),
]
"""Those of JSON were bound over the API, the others over AMQP."""


@pytest.mark.parametrize(("arguments", "key"), RECORDED)
def test_the_key_of_a_binding_with_arguments_is_that_of_rabbitmq(arguments, key):
    assert properties_key(Binding("x", "q", "queue", "", arguments)) == key


def test_a_binding_without_arguments_is_named_by_its_routing_key():
    assert properties_key(Binding("x", "q", "queue", "k/ %2F~")) == "k%2F+%252F%7E"
    assert properties_key(Binding("x", "q", "queue", "")) == "~"


@pytest.mark.parametrize("value", [b"\xff", b""])
def test_bytes_are_no_text(value):
    as_bytes = properties_key(Binding("x", "q", "queue", "", {"b": value}))

    assert as_bytes != properties_key(Binding("x", "q", "queue", "", {"b": ""}))


def test_names_with_ends_of_lines_are_bound_without_them_as_they_are_declared(api):
    api.put("queues/%2F/a%0Ab")
    api.put("exchanges/%2F/x%0D%0Ay", {"type": "fanout"})

    answer = api.ask("POST", "bindings/%2F/e/x%0D%0Ay/q/a%0Ab", {"routing_key": "k"})

    assert answer.status_code == 201, answer.text
    found = api.get("bindings/%2F/e/xy/q/ab")
    assert [one["routing_key"] for one in found] == ["k"]
