"""From text to JobConfig: what is taken, and how everything that is wrong is said at once."""

import pytest

from streaming.config import (
    InputSettings,
    InvalidConfigError,
    JobConfig,
    JobSettings,
    KafkaSettings,
    RecordHeader,
    RecordKey,
    TopicMapping,
    UserSettings,
    VhostSettings,
    parse_config,
)
from streaming.config.selectors import FORMS
from tests.unit.config.problems import problems_of

NO_MILLISECONDS = "job.trigger_ms: expected a whole number of milliseconds"


def test_an_empty_file_is_the_default_configuration():
    assert parse_config("") == JobConfig()


def test_the_defaults_are_one_vhost_one_administrator_and_two_topics_of_our_own():
    config = JobConfig()

    assert config.vhosts == {"/": VhostSettings()}
    assert config.users == {"guest": UserSettings(administrator=True)}
    assert config.inputs == (
        InputSettings(topic="dlx.publishes", source="publishes", user="guest"),
        InputSettings(topic="dlx.commands", source="commands", user="guest"),
    )


def test_the_durations_and_limits_that_the_documents_promise_are_the_defaults():
    config = JobConfig()

    assert config.job.trigger_ms == 100
    assert config.job.checkpoint_location == "checkpoints"
    assert config.job.clock == "wall"
    assert config.job.compat == "4.0"
    assert config.vhosts["/"].lanes == 1
    assert config.vhosts["/"].consumer_timeout_ms == 30 * 60 * 1000
    assert config.flow.max_header_bytes == 16 * 1024
    assert config.tables.contents_lag_ms == 5000


def test_a_file_can_set_everything():
    config = parse_config("""
        [job]
        clock = "event"
        compat = "3.10"
        shuffle_partitions = 4

        [kafka]
        bootstrap_servers = ["a:9092", "[::1]:9093"]

        [vhosts.shop]
        lanes = 2
        [vhosts."/"]

        [users.guest]
        administrator = true
        [users.shop]

        [[inputs]]
        topic = "dlx.publishes"
        [[inputs]]
        topic = "dlx.commands"
        source = "commands"
        partitions = 4
        [[inputs]]
        topic = "orders.v1"
        user = "shop"
        [inputs.mapping]
        vhost = "shop"
        exchange = { header = "ce_type", otherwise = "events" }
        routing_key = { record_key = true }
    """)

    assert config == JobConfig(
        job=JobSettings(clock="event", compat="3.10", shuffle_partitions=4),
        kafka=KafkaSettings(bootstrap_servers=("a:9092", "[::1]:9093")),
        vhosts={"shop": VhostSettings(lanes=2), "/": VhostSettings()},
        users={"guest": UserSettings(administrator=True), "shop": UserSettings()},
        inputs=(
            InputSettings(topic="dlx.publishes"),
            InputSettings(topic="dlx.commands", source="commands", partitions=4),
            InputSettings(
                topic="orders.v1",
                user="shop",
                mapping=TopicMapping(
                    vhost="shop",
                    exchange=RecordHeader("ce_type", otherwise="events"),
                    routing_key=RecordKey(),
                ),
            ),
        ),
    )


def test_bootstrap_servers_may_be_one_string_with_commas():
    assert parse_config('kafka.bootstrap_servers = "a:1, b:2"').kafka.bootstrap_servers == (
        "a:1",
        "b:2",
    )


def test_every_problem_is_found_in_one_run():
    assert problems_of("""
        clock = "event"
        [job]
        trigger = 5
        trigger_ms = "100ms"
        compat = 4.0
        lanes = 2
        [kafka]
        bootstrap_servers = ["a:1", "b"]
        [vhosts.shop]
        consumer_timeout = 3
        [users.alice]
        [[inputs]]
        topic = "dlx.publishes"
        user = "alise"
        [[inputs]]
        source = "comands"
        user = "alice"
        mapping.exchange = { headr = "x" }
        mapping.vhost = "shp"
        [tabels]
    """) == [
        "clock: unknown key (it belongs in [job])",
        "tabels: unknown key (did you mean 'tables'?)",
        "job.lanes: unknown key (it belongs in [vhosts.NAME])",
        "job.trigger: unknown key (did you mean 'trigger_ms'?)",
        'job.compat: expected "4.0" or "3.10", in quotes, got a float',
        f"{NO_MILLISECONDS}, got a string",
        "kafka.bootstrap_servers[1]: must be HOST:PORT",
        "vhosts.shop.consumer_timeout: unknown key (did you mean 'consumer_timeout_ms'?)",
        "inputs[1].topic: is missing",
        (
            'inputs[1].source: must be "publishes" or "commands" or "transactions", not "comands"'
            " (did you mean 'commands'?)"
        ),
        "inputs[1].mapping.exchange.headr: unknown key (did you mean 'header'?)",
        f"inputs[1].mapping.exchange: expected {FORMS}",
        "inputs[0].user: there is no [users.alise] (did you mean 'alice'?)",
        "inputs[1].mapping.vhost: there is no [vhosts.shp] (did you mean 'shop'?)",
    ]


def test_consequences_of_an_unreadable_value_are_not_reported():
    assert problems_of("""
        vhosts = 5
        [kafka]
        max_message_bytes = "2MB"
        [flow]
        max_body_bytes = 100_000_000
        [[inputs]]
        topic = "dlx.all"
        source = "comands"
        user = "guest"
        mapping = { exchange = "x", vhost = "shop" }
    """) == [
        "kafka.max_message_bytes: expected a whole number of bytes, got a string",
        "vhosts: expected a table, got a whole number",
        (
            'inputs[0].source: must be "publishes" or "commands" or "transactions", not "comands"'
            " (did you mean 'commands'?)"
        ),
    ]


def test_conflicts_between_tables_are_reported_beside_other_problems():
    assert problems_of("""
        [flow]
        max_body_bytes = 100_000_000
        [tables]
        contents_lag_ms = 1
    """) == [
        "tables.contents_lag_ms: must be from 100 to 3_600_000",
        (
            "flow.max_body_bytes: must be at most 1_966_080: kafka.max_message_bytes = 2_097_152,"
            " less 131_072 for headers"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job = 5", "job: expected a table, got a whole number"),
        ("job = []", "job: expected a table, got an array"),
        ("vhosts = []", "vhosts: expected a table, got an array"),
        ("vhosts.a = 1", "vhosts.a: expected a table, got a whole number"),
        ("inputs = 1", "inputs: expected an array of tables, got a whole number"),
        ("inputs = {}", "inputs: expected an array of tables, got a table"),
        ("inputs = [1]", "inputs[0]: expected a table, got a whole number"),
        ("kafka.security = 1", "kafka.security: expected a table, got a whole number"),
        ("job.clock = true", 'job.clock: expected "wall" or "event", in quotes, got a boolean'),
        ("job.trigger_ms = true", f"{NO_MILLISECONDS}, got a boolean"),
        ("job.trigger_ms = 1979-05-27", f"{NO_MILLISECONDS}, got a date or time"),
        ("job.trigger_ms = 99.0", f"{NO_MILLISECONDS}, got a float"),
        ("job.trigger_ms = -1", "job.trigger_ms: must be from 0 to 3_600_000"),
        ("job.max_batch_rows = 0", "job.max_batch_rows: must be from 1 to 10_000_000"),
        ("job.max_batch_rows = 'x'", "job.max_batch_rows: expected a whole number, got a string"),
        (
            "kafka.bootstrap_servers = 5",
            "kafka.bootstrap_servers: expected an array of strings, got a whole number",
        ),
        (
            "kafka.bootstrap_servers = [5]",
            "kafka.bootstrap_servers[0]: expected a string, got a whole number",
        ),
        ("job.log_dir = ''", "job.log_dir: is empty"),
        ("job.log_dir = {}", "job.log_dir: expected a string, got a table"),
        (
            "users.a.administrator = 1",
            "users.a.administrator: expected true or false, got a whole number",
        ),
        ("flow.low_mark_fraction = 1", "flow.low_mark_fraction: must be above 0 and below 1"),
        ("flow.low_mark_fraction = nan", "flow.low_mark_fraction: must be above 0 and below 1"),
        (
            "flow.low_mark_fraction = true",
            "flow.low_mark_fraction: expected a number, got a boolean",
        ),
        (
            "flow.low_mark_fraction = '0.8'",
            "flow.low_mark_fraction: expected a number, got a string",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_at_its_path(text, problem):
    assert problem in problems_of(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[vhosts]", "vhosts: is empty: add at least one vhost"),
        ("[users]", "users: is empty: add at least one user"),
        ("inputs = []", "inputs: is empty: add at least one input"),
        ('[vhosts.""]', 'vhosts."": the name of this vhost is empty'),
        (
            f"[users.{'x' * 256}]",
            f"users.{'x' * 256}: the name of this user is longer than 255 bytes",
        ),
        ("[[inputs]]", "inputs[0].topic: is missing"),
        ("[[inputs]]\nmapping = {}", "inputs[0].mapping.exchange: is missing"),
    ],
)
def test_a_missing_table_or_key_is_reported(text, problem):
    assert problem in problems_of(text)


def test_a_misspelt_table_of_three_letters_gets_a_suggestion():
    with pytest.raises(InvalidConfigError, match=r"^jbo: unknown key \(did you mean 'job'\?\)$"):
        parse_config("[jbo]\ntrigger_ms = 5\n")
