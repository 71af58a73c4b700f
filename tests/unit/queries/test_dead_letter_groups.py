"""Dead letters in groups, their causes, and a summary of them."""

from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from streaming.pipeline.rows.amqp_columns import headers_json
from streaming.queries import CauseSource, DeadLetterFilter, QueryError, open_tables
from streaming.queries.dead_letters.cause_texts import stripped
from streaming.queries.message_attributes import MessageId
from tests.unit.queries.failures import failures

BEGIN = datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    recording = failures(tmp_path_factory.mktemp("failures") / "tables")
    recording.close()
    return recording.root


@pytest.fixture
def queries(root):
    with open_tables(root) as opened:
        yield opened


def counted(rows, *names):
    return [(*(row[name] for name in names), row["deaths"]) for row in rows]


def test_groups_are_counted_by_queue_and_reason(queries):
    rows = queries.dead_letter_groups().rows()

    assert counted(rows, "queue", "reason") == [("work", "rejected", 3), ("lonely", "rejected", 1)]
    assert [(row["first_seen"], row["last_seen"]) for row in rows] == [
        ("2020-09-13T12:26:41.000Z", "2020-09-13T12:26:43.000Z"),
        ("2020-09-13T12:26:44.000Z", "2020-09-13T12:26:44.000Z"),
    ]
    assert [(row["redriven"], row["lost"], row["dropped"]) for row in rows] == [
        (1, 0, 0),
        (0, 1, 0),
    ]
    assert [sum(row["trend"]) for row in rows] == [3, 1]
    assert rows[0]["trend"][0] == rows[1]["trend"][-1] == 1


def test_causes_are_texts_without_numbers_ids_and_addresses(queries):
    rows = queries.dead_letter_groups(("cause",)).rows()

    assert counted(rows, "cause") == [
        ("timeout after # ms calling #", 2),
        ("order # of # is unknown", 1),
        (None, 1),
    ]


@pytest.mark.parametrize(
    ("by", "source", "groups"),
    [
        (("header:tenant",), CauseSource(), [("shop/0", 2), ("shop/1", 2)]),
        (("exchange",), CauseSource(), [("orders", 3), ("", 1)]),
        (("outcome",), CauseSource(), [(None, 3), ("no_exchange", 1)]),
        (("cause",), CauseSource(header="tenant"), [("shop/#", 4)]),
        (("cause",), CauseSource(sql="decode(body) ->> 'error'"), [("E#", 4)]),
    ],
    ids=str,
)
def test_groups_can_be_by_any_attribute(queries, by, source, groups):
    rows = queries.dead_letter_groups(by, DeadLetterFilter(cause_source=source)).rows()

    assert counted(rows, *by) == groups


def test_a_group_says_whether_it_is_new(queries):
    rows = queries.dead_letter_groups(
        ("queue",), new_since=BEGIN + timedelta(milliseconds=2500)
    ).rows()

    assert [(row["queue"], row["is_new"], row["new"]) for row in rows] == [
        ("work", False, 1),
        ("lonely", True, 1),
    ]


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (DeadLetterFilter(exchange="orders"), [0, 1, 2]),
        (DeadLetterFilter(exchange=""), [3]),
        (DeadLetterFilter(routing_key="order.1"), [1]),
        (DeadLetterFilter(headers=(("tenant", "shop/0"),)), [0, 2]),
        (DeadLetterFilter(headers=(("tenant", "shop/0"), ("x-redrive-count", "1"))), [2]),
        (DeadLetterFilter(headers=(("x-exception", None),)), [0, 2]),
        (DeadLetterFilter(headers=(("tenant", "shop"),)), []),
        (DeadLetterFilter(headers=(("ten~/'\"ant", None),)), []),
        (DeadLetterFilter(cause="timeout after # ms calling #"), [0, 1]),
        (DeadLetterFilter(ids=(MessageId(0, 0, 1), MessageId(0, 0, 3))), [1, 3]),
        (DeadLetterFilter(since=BEGIN + timedelta(seconds=2)), [1, 2, 3]),
        (DeadLetterFilter(until=BEGIN + timedelta(seconds=2)), [0]),
    ],
    ids=repr,
)
def test_filters_choose_dead_letters(queries, wanted, offsets):
    found = queries.dead_letters(wanted)

    assert sorted(row["message_id"] for row in found) == [f"0/0/{offset}" for offset in offsets]
    assert found.count() == len(offsets)


def test_a_kafka_header_is_found_like_another(queries):
    condition = "[{'key': 'x', 'value': encode('a')}]"
    run = queries.tables.connection
    from streaming.queries.dead_letters.filters import conditions

    for wanted, found in (("a", True), ("b", False), (None, True)):
        [sql] = conditions(DeadLetterFilter(headers=(("x", wanted),)))
        row = f"SELECT CAST(NULL AS VARCHAR) AS headers, {condition} AS kafka_headers"
        assert run.sql(f"SELECT {sql} FROM ({row})").fetchall() == [(found,)]


def test_a_period_without_deaths_has_no_groups(queries):
    assert queries.dead_letter_groups(wanted=DeadLetterFilter(queue="dead")).rows() == []


@pytest.mark.parametrize(
    ("by", "hint"),
    [(("queu",), "did you mean 'queue'?"), (("key",), "'routing_key'"), ((), "queue,reason")],
    ids=str,
)
def test_an_unknown_attribute_is_refused(queries, by, hint):
    with pytest.raises(QueryError, match="attribute") as error:
        queries.dead_letter_groups(by)

    assert hint in str(error.value)


def test_a_summary_counts_and_names_the_largest_groups(queries):
    found = queries.dead_letter_summary()

    assert (found.deaths, found.queues, found.lost, found.in_queues) == (4, 2, 1, 3)
    assert (found.first_seen, found.last_seen) == (
        "2020-09-13T12:26:41.000Z",
        "2020-09-13T12:26:44.000Z",
    )
    assert counted(found.groups, "queue") == [("work", 3), ("lonely", 1)]
    assert counted(found.causes, "cause")[0] == ("timeout after # ms calling #", 2)
    assert found.new == found.groups


def test_a_summary_of_nothing_is_empty(queries):
    found = queries.dead_letter_summary(DeadLetterFilter(queue="dead"))

    assert (found.deaths, found.first_seen, found.groups, found.causes) == (0, None, [], [])


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (" timeout after 12 ms \n at line 3", "timeout after # ms"),
        ("timeout ", "timeout"),
        ("x" * 300, "x" * 200),
        ("é" * 150, "é" * 150),
        ("é" * 300, "é" * 200),
        (None, None),
    ],
    ids=["lines", "space", "long", "many bytes", "long and many bytes", "null"],
)
def test_a_cause_is_the_first_line_up_to_its_most_characters(given, cause):
    found = duckdb.connect().execute(f"SELECT {stripped('CAST(? AS VARCHAR)')}", [given])

    assert found.fetchall() == [(cause,)]


@pytest.mark.parametrize("name", ["x-exception", 'a "quoted" one', "a/b~c", "é\n", "\x7f"])
def test_a_cause_header_may_have_any_name(name):
    no_kafka_headers = "CAST([] AS STRUCT(key VARCHAR, value BLOB)[])"
    letter = f"(SELECT ? AS headers, {no_kafka_headers} AS kafka_headers)"

    found = duckdb.connect().execute(
        f"SELECT {CauseSource(header=name).expression()} FROM {letter}",
        [headers_json({"other": 1, name: "timeout"})],
    )

    assert found.fetchall() == [("timeout",)]
