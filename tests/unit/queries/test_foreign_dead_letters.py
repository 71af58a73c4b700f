"""The view of other systems' dead letters."""

import pyarrow as pa
import pytest

from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import MESSAGES, TABLES
from streaming.ledger.write.arrow_columns import build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import DataFileName, source_of_partition, write_data_file
from streaming.ledger.write.ledger import Ledger
from streaming.queries import open_tables
from streaming.storage.location import Location

HEADERS = (
    {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"41",
        "__connect.errors.connector.name": b"sink",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.exception.class.name": b"DataException",
        "__connect.errors.exception.message": b"no field 7",
        "__connect.errors.exception.stacktrace": b"at a.b.C",
    },
    {
        "kafka_dlt-original-topic": b"orders",
        "kafka_dlt-original-partition": (3).to_bytes(4, "big"),
        "kafka_dlt-original-offset": (1 << 40).to_bytes(8, "big"),
        "kafka_dlt-original-timestamp": (1_600_000_000_000).to_bytes(8, "big"),
        "kafka_dlt-original-consumer-group": b"shop",
        "kafka_dlt-exception-fqcn": b"java.lang.IllegalStateException",
        "kafka_dlt-exception-message": b"\xff",
    },
    {
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"2",
        "__dlq.errors.offset": b"none",
        "__dlq.errors.group": b"workers",
        "__dlq.errors.delivery.count": b"5",
        "__dlq.errors.message": b"Offset rejected by client.",
    },
    {"tenant": b"acme", "xconnectXerrors": b"no"},
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = Location(str(tmp_path_factory.mktemp("foreign") / "tables"))
    ledger = Ledger(place)
    lists = [[{"key": key, "value": value} for key, value in one.items()] for one in HEADERS]
    columns = {
        "query_id": ["q"] * len(lists),
        "batch_id": [0] * len(lists),
        "vhost": ["/"] * len(lists),
        "lane": [0] * len(lists),
        "topic_number": [0] * len(lists),
        "partition": [0] * len(lists),
        "offset": list(range(len(lists))),
        "kafka_headers": pa.array(lists, MESSAGES.field("kafka_headers").type),
    }
    table = build_table(MESSAGES, columns, len(lists))
    name = DataFileName("q", 0, "messages", source_of_partition(0, 0))
    file = write_data_file((place / "messages").storage(), TABLES["messages"], name, table)
    assert file is not None
    ledger.commit([file], BatchRow("q", 0, 0, totals([file])))
    ledger.close()
    return place.url


def test_the_headers_of_other_systems_are_columns(root):
    with open_tables(root) as queries:
        rows = queries.sql('FROM foreign_dead_letters ORDER BY "offset"').rows()

    names = ("system", "original_topic", "original_partition", "original_offset")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("kafka_connect", "orders", 3, 41),
        ("spring_kafka", "orders", 3, 1 << 40),
        ("share_group", "orders", 2, None),
    ]
    more = ("consumer_group", "connector", "task_id", "delivery_count", "original_timestamp_ms")
    assert [tuple(row[name] for name in more) for row in rows] == [
        (None, "sink", 0, None, None),
        ("shop", None, None, None, 1_600_000_000_000),
        ("workers", None, None, 5, None),
    ]
    assert [(row["exception_class"], row["exception_message"]) for row in rows] == [
        ("DataException", "no field 7"),
        ("java.lang.IllegalStateException", None),
        (None, "Offset rejected by client."),
    ]
    assert rows[0]["exception_stacktrace"] == "at a.b.C"
