"""Queries for dead letters."""

from datetime import UTC, datetime

import pytest

from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.letters import list_dead_letters
from streaming.queries.duckdb_tables import QueryError, Tables
from tests.unit.queries.recording import QUERY_ID

EXPIRED_AT = datetime(2020, 9, 13, 12, 26, 40, 500_000, tzinfo=UTC)


def listed(tables, **wanted):
    return [row["message_id"] for row in list_dead_letters(tables, DeadLetterFilter(**wanted))]


def test_a_dead_letter_has_all_its_attributes(shop):
    rows = list_dead_letters(shop, DeadLetterFilter(queue="billing"))

    assert rows == [
        {
            "query_id": QUERY_ID,
            "batch_id": 0,
            "vhost": "/",
            "lane": 0,
            "seq": 15,
            "at": "2020-09-13T12:26:40.000Z",
            "message_id": "0/0/0",
            "copy_id": 10,
            "parent_copy_id": None,
            "queue": "billing",
            "reason": "rejected",
            "cause": None,
            "count": 1,
            "exchange": "orders",
            "routing_key": "bill.eu",
            "routing_keys": ["bill.eu"],
            "dead_letter_exchange": "dlx",
            "dead_letter_routing_key": "bill.eu",
            "targets": ["dead"],
            "outcome": None,
            "x_death": [
                {
                    "count": 1,
                    "reason": "rejected",
                    "queue": "billing",
                    "time": "2020-09-13T12:26:40.000Z",
                    "exchange": "orders",
                    "routing_keys": ["bill.eu"],
                }
            ],
            "first_death": {"reason": "rejected", "queue": "billing", "exchange": "orders"},
            "last_death": {"reason": "rejected", "queue": "billing", "exchange": "orders"},
            "properties": {"message_id": "first"},
            "headers": {"tenant": "acme", "n": 1},
            "kafka_headers": [],
            "origin": {
                "topic": "dlx.publishes",
                "topic_number": 0,
                "partition": 0,
                "offset": 0,
                "timestamp": "2020-09-13T12:26:40.000Z",
            },
            "body_bytes": 7,
            "body": "order 0",
        }
    ]


def test_the_latest_dead_letters_come_first_up_to_the_limit(shop):
    assert listed(shop) == ["0/0/2", "0/0/0"]
    assert listed(shop, limit=1) == ["0/0/2"]
    assert listed(shop, limit=None) == ["0/0/2", "0/0/0"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"queue": "mail"}, ["0/0/2"]),
        ({"queue": "dead"}, []),
        ({"reason": "rejected"}, ["0/0/0"]),
        ({"queue": "mail", "reason": "rejected"}, []),
        ({"vhost": "/"}, ["0/0/2", "0/0/0"]),
        ({"vhost": "other"}, []),
        ({"since": EXPIRED_AT}, ["0/0/2"]),
        ({"since": datetime(2021, 1, 1, tzinfo=UTC)}, []),
        ({"where": "headers ->> 'tenant' = 'acme'"}, ["0/0/0"]),
        ({"where": "\"at\" > '2020-09-13 12:26:40'"}, ["0/0/2"]),
        ({"where": "count = 1 OR false"}, ["0/0/2", "0/0/0"]),
        ({"where": "message_id.offset = 2 -- a remark"}, ["0/0/2"]),
        ({"where": "'dead' IN targets AND x_death[1].reason = 'expired'"}, ["0/0/2"]),
    ],
    ids=str,
)
def test_filters(shop, wanted, found):
    assert listed(shop, **wanted) == found


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("queu = 'mail'", 'Referenced column "queu" not found'),
        ("queue = ", "syntax error"),
        ("true) OR (true); DROP TABLE x; --", "syntax error"),
        ("sum(count) > 1", "cannot contain aggregates"),
        ("CAST(routing_key AS INTEGER) = 1", "Could not convert string 'bill.eu'"),
        ("count * 9223372036854775807 * 2 > 1", "Overflow in multiplication"),
        ("repeat(queue, 1000000000000) = ''", "Cannot create a string of size"),
        ("at > now()", '"at"'),
        ("body LIKE '%order%'", "; body is bytes: decode(body) is its text"),
        ("message_id = '1/0/42'", "; an id has members: message_id.topic_number"),
    ],
)
def test_a_condition_that_duckdb_does_not_understand_is_refused(shop, where, reason):
    with pytest.raises(QueryError) as error:
        listed(shop, where=where)

    assert str(error.value).startswith(f"--where {where!r}: ")
    assert reason in str(error.value)
    assert "LINE" not in str(error.value)


def test_without_tables_the_error_has_a_remedy(tmp_path, shop_root):
    with pytest.raises(QueryError, match="there is no table 'dead_letters' here"):
        listed(Tables(str(tmp_path)))
    (tmp_path / "tables").symlink_to(shop_root)
    with pytest.raises(QueryError, match=f"--tables {tmp_path}/tables"):
        listed(Tables(str(tmp_path)))
