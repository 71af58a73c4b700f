"""The parts that outbound records omit if they are too large, and their order (D11)."""

import json

import pytest

from streaming.broker.message import Message
from streaming.pipeline.outbound.truncation import (
    Header,
    MessageParts,
    fit_answer,
    fit_message,
    record_size,
)

KEY = b"channel"
MESSAGE = Message(1, 2, 3, 0, 0, 0)
DEATHS = [{"queue": f"q{number}", "count": 1} for number in range(100)]
MOST = 2_000


def parts(body=b"", headers=None, kafka_headers=(), properties=None):
    short: list[Header] = [("dlx-delivery-id", b"1.7")]
    return MessageParts(MESSAGE, body, short, properties or {}, headers, list(kafka_headers))


def table(fitted):
    return json.loads(dict(fitted.headers)["dlx-headers"] or b"")


def test_a_record_that_fits_is_complete():
    whole = parts(b"b" * 500, {"x-death": DEATHS[:2]}, [("x", b"1"), ("x", b"2")], {"type": "t"})

    fitted = fit_message(whole, KEY, MOST)

    assert (fitted.value, fitted.headers, fitted.left_out) == (
        b"b" * 500,
        [
            ("x", b"1"),
            ("x", b"2"),
            ("dlx-delivery-id", b"1.7"),
            ("dlx-properties", b'{"type":"t"}'),
            ("dlx-headers", json.dumps(whole.headers, separators=(",", ":")).encode()),
        ],
        {},
    )


@pytest.mark.parametrize(
    ("message", "value", "left_out"),
    [
        (parts(b"b" * 500, {"k": 1, "x-death": DEATHS}), b"b" * 500, {"x-death"}),
        (parts(b"b" * 5_000, {"k": 1}), b"", {"body"}),
        (parts(b"b" * 5_000, {"k": 1, "x-death": DEATHS}), b"", {"body", "x-death"}),
        (parts(b"", {"k": 1, "x-death": DEATHS}), b"", {"x-death"}),
        (parts(b"b", {"k": "v" * 5_000}), b"", {"body", "headers"}),
        (parts(b"b", {"k": 1}, [("x", b"v" * 5_000)]), b"", {"body", "headers", "kafka_headers"}),
    ],
)
def test_a_large_record_is_truncated_as_little_as_possible_and_names_the_parts(
    message, value, left_out
):
    fitted = fit_message(message, KEY, MOST)

    named = dict(fitted.headers)
    assert fitted.value == value
    assert fitted.left_out.keys() == left_out
    assert json.loads(named["dlx-left-out"] or b"") == fitted.left_out
    assert [named[f"dlx-{part}"] for part in ("topic-number", "partition", "offset")] == [
        b"1",
        b"2",
        b"3",
    ]
    assert named["dlx-delivery-id"] == b"1.7"
    assert record_size(KEY, fitted.value, fitted.headers) <= MOST + 256
    if "headers" not in left_out:
        assert table(fitted)["k"] == 1
    if left_out == {"x-death"}:
        kept = table(fitted)["x-death"]
        assert kept == DEATHS[: len(kept)]
        assert fitted.left_out["x-death"] == len(DEATHS) - len(kept)


def test_an_answer_loses_the_ends_of_its_longest_lists_first():
    answer = {
        "op": "ack",
        "reply_id": "1",
        "result": {"short": ["a"], "long": ["x" * 50] * 100},
        "seq": 1,
    }

    fitted = fit_answer(answer, KEY, [], MOST)

    found = json.loads(fitted.value)
    kept = len(found["result"]["long"])
    assert found == {**answer, "result": {"short": ["a"], "long": ["x" * 50] * kept}}
    assert (fitted.left_out, kept > 20) == ({"long": 100 - kept}, True)


@pytest.mark.parametrize(
    ("answer", "left_out"),
    [
        ({"result": {"consumer": "c" * 5_000}, "reply_id": "1"}, {"result": 1}),
        ({"error": {"code": 404, "text": "t" * 5_000}, "reply_id": None}, {"error": 4_000}),
        ({"result": {}, "reply_id": "r" * 5_000}, {"reply_id": 5_000}),
    ],
)
def test_an_answer_without_lists_still_fits(answer, left_out):
    fitted = fit_answer(answer, KEY, [], MOST)

    assert fitted.left_out == left_out
    assert record_size(KEY, fitted.value, fitted.headers) <= MOST + 256
