"""Inputs: our own topics and mapped ones."""

import pytest

from streaming.config import (
    InputSettings,
    InvalidConfigError,
    JsonValue,
    RecordField,
    RecordHeader,
    RecordKey,
    Template,
    TopicMapping,
    parse_config,
)
from streaming.config.selectors import FORMS

OWN_TOPICS = """
    [[inputs]]
    topic = "dlx.publishes"
    [[inputs]]
    topic = "dlx.commands"
    source = "commands"
"""

SINGLE = (
    ": write {{ or }} for a brace, or a placeholder: {key}, {header.NAME}, {json.PATH} or "
    "{record.FIELD}"
)
NO_PATH = (
    'is not a path to one value: write $ and then .name, ["name"] or [index], such as '
    "$.items[0].sku"
)
NO_FORM = f".exchange: expected {FORMS}"


def mapping_of(mapping: str) -> TopicMapping | None:
    text = f'{OWN_TOPICS}\n[[inputs]]\ntopic = "orders"\nmapping = {mapping}'
    return parse_config(text).inputs[2].mapping


def problems_of(mapping: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        mapping_of(mapping)
    return [str(problem).removeprefix("inputs[2].mapping") for problem in caught.value.problems]


def test_a_mapping_needs_only_an_exchange():
    assert mapping_of('{ exchange = "orders" }') == TopicMapping(
        vhost="/", exchange="orders", routing_key=""
    )


@pytest.mark.parametrize(
    ("written", "selector"),
    [
        ('"orders"', "orders"),
        ('""', ""),
        ("{ record_key = true }", RecordKey()),
        ('{ record_key = true, otherwise = "" }', RecordKey(otherwise="")),
        ('{ header = "type" }', RecordHeader("type")),
        ('{ header = "type", otherwise = "x" }', RecordHeader("type", otherwise="x")),
        ("{ key = true }", RecordKey()),
        ('{ json = "$.type" }', JsonValue("$.type")),
        ("""{ json = '$.a["b c"][0]["}"]' }""", JsonValue('$.a["b c"][0]["}"]')),
        ('{ record = "offset" }', RecordField("offset")),
        ('{ template = "o.{key}", otherwise = "x" }', Template("o.{key}", otherwise="x")),
        ('"order.{header.type}"', "order.{header.type}"),
        ('"{{a}}"', "{{a}}"),
    ],
)
def test_an_exchange_is_a_text_or_a_part_of_the_record(written, selector):
    assert mapping_of(f"{{ exchange = {written} }}") == TopicMapping(exchange=selector)


@pytest.mark.parametrize(
    ("mapping", "problems"),
    [
        ("{ exchange = 1 }", [f"{NO_FORM}, got a whole number"]),
        ("{ exchange = {} }", [NO_FORM]),
        ("{ exchange = { record_key = false } }", [".exchange.record_key: must be true"]),
        ("{ exchange = { record_key = 1 } }", [".exchange.record_key: must be true"]),
        (
            "{ exchange = { header = 1 } }",
            [".exchange.header: expected a string, got a whole number"],
        ),
        ('{ exchange = { header = "" } }', [".exchange.header: is empty"]),
        (
            '{ exchange = { header = "a", record_key = true } }',
            [".exchange: names both record_key and header: use only one of them"],
        ),
        (
            "{ exchange = { record_key = true, otherwise = 1 } }",
            [".exchange.otherwise: expected a string, got a whole number"],
        ),
        (
            '{ exchange = { record_key = true, otherwize = "a" } }',
            [".exchange.otherwize: unknown key (did you mean 'otherwise'?)"],
        ),
        (f'{{ exchange = "{"x" * 256}" }}', [".exchange: is longer than 255 bytes"]),
        (
            f'{{ exchange = "a", routing_key = {{ header = "h", otherwise = "{"é" * 128}" }} }}',
            [".routing_key.otherwise: is longer than 255 bytes"],
        ),
        ('{ exchange = "a", vhost = "" }', [".vhost: is empty"]),
        (
            '{ exchange = "a", vhost = { header = "v", otherwise = "" } }',
            [".vhost.otherwise: is empty"],
        ),
        ('{ exchange = "a", vhost = "shop" }', [".vhost: there is no [vhosts.shop]"]),
        (
            '{ exchange = "a", vhost = { template = "shop" } }',
            [".vhost: there is no [vhosts.shop]"],
        ),
        (
            '{ exchange = "a", vhost = { header = "v", otherwise = "shop" } }',
            [".vhost: there is no [vhosts.shop]"],
        ),
        (
            '{ exchange = "a", priority = { template = "300" }, delivery_mode = { template = "{{" }'
            f', routing_key = {{ template = "{"a" * 300}" }} }}',
            [
                ".routing_key.template: is longer than 255 bytes",
                ".delivery_mode.template: expected a whole number, got a string",
                ".priority.template: expected a whole number, got a string",
            ],
        ),
        (
            '{ exchange = "a", headers = { a = nan, b = -inf, c = 9223372036854775808 } }',
            [
                ".headers.a: must be a finite number",
                ".headers.b: must be a finite number",
                ".headers.c: is a number beyond 64 bits",
            ],
        ),
        (
            '{ exchange = "a", exchnage = "b" }',
            [".exchnage: unknown key (did you mean 'exchange'?)"],
        ),
        ("1", [": expected a table, got a whole number"]),
        (
            '{ exchange = "order.{headr.type}" }',
            [
                ".exchange: {headr.type} is not a placeholder (did you mean 'header'?): write "
                "{key}, {header.NAME}, {json.PATH} or {record.FIELD}"
            ],
        ),
        (
            '{ exchange = "{record.ofset}" }',
            [
                ".exchange: {record.ofset} is not a placeholder (did you mean 'offset'?): write "
                "one of {record.topic}, {record.partition}, {record.offset}, {record.timestamp}"
            ],
        ),
        (
            '{ exchange = "a}", routing_key = { template = "{" } }',
            [
                f".exchange: has a single }}{SINGLE}",
                f".routing_key.template: has a single {{{SINGLE}",
            ],
        ),
        (
            '{ exchange = { json = "type" }, routing_key = { json = "$.a[*]" } }',
            [f'.exchange.json: "type" {NO_PATH}', f'.routing_key.json: "$.a[*]" {NO_PATH}'],
        ),
        (
            '{ exchange = "{json.$..a}", routing_key = { record = "time" } }',
            [
                f'.exchange: "$..a" {NO_PATH}',
                '.routing_key.record: must be "topic" or "partition" or "offset" or "timestamp"',
            ],
        ),
        (
            '{ exchange = { key = true, optional = true }, app_id = { key = true, unit = "s" } }',
            [
                '.exchange.optional: every publish needs this value: use otherwise = "text"',
                ".app_id.unit: is only for the property timestamp",
            ],
        ),
        (
            '{ exchange = "a", timestamp = { key = true, unit = "min", otherwise = "x" } }',
            [
                ".timestamp.otherwise: expected a whole number, got a string",
                '.timestamp.unit: must be "s" or "ms"',
            ],
        ),
        (
            '{ exchange = "a", type = { key = true, optional = true, otherwise = "x" } }',
            [".type.optional: has no effect together with otherwise: use only one of them"],
        ),
        (
            '{ exchange = "a", priority = 256, delivery_mode = "2" }',
            [
                ".delivery_mode: expected a whole number, got a string",
                ".priority: must be from 0 to 255",
            ],
        ),
        (
            '{ exchange = "a", headers = { "" = "x", "a b" = { jsn = "$" }, c = [1] } }',
            [
                '.headers."": the name of this header is empty',
                ".headers.\"a b\".jsn: unknown key (did you mean 'json'?)",
                f'.headers."a b": expected {FORMS}',
                f".headers.c: expected {FORMS}, got an array",
            ],
        ),
    ],
)
def test_an_invalid_mapping_is_refused(mapping, problems):
    assert problems_of(mapping) == problems


def test_a_vhost_from_a_header_need_not_be_listed():
    mapping = mapping_of('{ exchange = "a", vhost = { header = "tenant" } }')

    assert mapping == TopicMapping(exchange="a", vhost=RecordHeader("tenant"))


def test_a_mapped_topic_carries_no_commands():
    with pytest.raises(InvalidConfigError) as caught:
        InputSettings(topic="orders", source="commands", mapping=TopicMapping(exchange="a"))

    assert str(caught.value) == (
        'mapping: needs source = "publishes": a mapped topic has no commands'
    )


def test_partitions_cannot_be_set_for_a_mapped_topic():
    with pytest.raises(InvalidConfigError) as caught:
        InputSettings(topic="orders", partitions=3, mapping=TopicMapping(exchange="a"))

    assert (
        str(caught.value)
        == "partitions: cannot be set with a mapping: the job creates no such topic"
    )


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("", "is not a valid name for a Kafka topic"),
        ("..", "is not a valid name for a Kafka topic"),
        ("a b", "must consist of letters, digits, '.', '_' and '-', as Kafka requires"),
        ("é", "must consist of letters, digits, '.', '_' and '-', as Kafka requires"),
        ("x" * 250, "is longer than 249 characters, Kafka's limit"),
    ],
)
def test_a_topic_name_that_kafka_would_refuse_is_refused(topic, fault):
    with pytest.raises(InvalidConfigError) as caught:
        InputSettings(topic=topic)

    assert str(caught.value) == f"topic: {fault}"
