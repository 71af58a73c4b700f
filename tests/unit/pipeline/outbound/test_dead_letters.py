"""The headers of dead letters that go to a Kafka topic."""

from streaming.pipeline.outbound.dead_letters import headers_of

ROW = {
    "vhost": "/",
    "lane": 0,
    "seq": 15,
    "queue": "work",
    "reason": "expired",
    "count": 2,
    "exchange": "",
    "routing_key": "größe",
    "properties": {"message_id": "first", "priority": None},
    "headers": '{"tenant":"acme"}',
    "kafka_headers": [
        {"key": "trace", "value": b"\xff"},
        {"key": "dlx-seq", "value": b"99"},
        {"key": "trace", "value": None},
    ],
    "origin": {"topic": "orders", "partition": 3, "offset": 41},
    "copy_id": 10,
}


def test_the_headers_are_connects_the_records_own_and_ours():
    assert headers_of(ROW) == [
        ("trace", b"\xff"),
        ("trace", None),
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"41"),
        ("__connect.errors.connector.name", b"dlx"),
        ("__connect.errors.task.id", b"0"),
        ("__connect.errors.stage", b"work"),
        ("__connect.errors.class.name", b"queue"),
        ("__connect.errors.exception.class.name", b"expired"),
        ("__connect.errors.exception.message", b"expired in queue 'work' of vhost '/', 2 times"),
        ("dlx-vhost", b"/"),
        ("dlx-lane", b"0"),
        ("dlx-seq", b"15"),
        ("dlx-queue", b"work"),
        ("dlx-copy-id", b"10"),
        ("dlx-exchange", b""),
        ("dlx-routing-key", "größe".encode()),
        ("dlx-headers", b'{"tenant":"acme"}'),
        ("dlx-properties", b'{"message_id":"first"}'),
    ]


def test_what_a_death_does_not_have_has_no_header():
    bare = {**ROW, "properties": None, "headers": None, "kafka_headers": None, "origin": None}

    names = {name for name, _value in headers_of({**bare, "count": 1})}

    assert "__connect.errors.topic" not in names
    assert not names & {"dlx-properties", "dlx-headers"}
