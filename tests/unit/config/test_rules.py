"""Rules between the tables."""

import pytest

from streaming.config import JobConfig, parse_config
from tests.unit.config.problems import problems_of

COMMANDS = '[[inputs]]\ntopic = "dlx.commands"\nsource = "commands"\n'
PUBLISHES = '[[inputs]]\ntopic = "dlx.publishes"\n'
FOREIGN = '[[inputs]]\ntopic = "orders"\nmapping.exchange = "x"\n'


def test_an_input_for_commands_is_required():
    assert problems_of(PUBLISHES) == [
        (
            'inputs: no input has source = "commands": add one, such as topic = "dlx.commands", '
            "or clients cannot declare or settle anything"
        ),
    ]


def test_an_input_for_publishes_is_required():
    assert problems_of(COMMANDS) == ['inputs: no input has source = "publishes"']


def test_a_mapped_topic_is_a_source_of_publishes():
    assert parse_config(COMMANDS + FOREIGN).topics_of("publishes") == ("orders",)


def test_the_user_of_an_input_must_be_listed():
    assert problems_of("[users.alice]") == [
        "inputs[0].user: there is no [users.guest]",
        "inputs[1].user: there is no [users.guest]",
    ]


def test_two_inputs_cannot_share_a_topic():
    assert problems_of(PUBLISHES + COMMANDS + PUBLISHES) == [
        "inputs[2].topic: is already the topic of inputs[0].topic"
    ]


def test_topics_that_collide_in_kafkas_metrics_are_refused():
    text = PUBLISHES + COMMANDS + '[[inputs]]\ntopic = "dlx_publishes"\n'

    assert problems_of(text) == ["inputs[2].topic: is already the topic of inputs[0].topic"]


def test_an_input_cannot_be_an_outbound_topic():
    text = COMMANDS + '[[inputs]]\ntopic = "dlx.out._2f.guest"\n'

    assert problems_of(text) == [
        (
            "outbound.topic: dlx.out._2f.guest, for vhost '/' and user 'guest', is already the "
            "topic of inputs[1].topic"
        ),
    ]


@pytest.mark.parametrize("topic", ["dlx.publishes", "dlx.out._2f.guest", "dlx_commands"])
def test_the_topic_of_dead_letters_is_no_other_topic_of_the_job(topic):
    text = PUBLISHES + COMMANDS + f'[outbound.dead_letters]\ntopic = "{topic}"\n'

    [problem] = problems_of(text)

    assert problem.startswith(f"outbound.dead_letters.topic: {topic} is already the topic of ")


def test_an_input_cannot_be_a_heartbeat_topic():
    text = COMMANDS + '[[inputs]]\ntopic = "dlx.out._2f.guest.alive"\n'

    assert problems_of(text) == [
        (
            "outbound.topic: dlx.out._2f.guest.alive, for vhost '/' and user 'guest', is already "
            "the topic of inputs[1].topic"
        ),
    ]


def test_two_pairs_of_vhost_and_user_never_share_a_topic():
    text = f"""
        {PUBLISHES}
        {COMMANDS}
        [vhosts.a]
        [vhosts.ab]
        [users.guest]
        [users.bguest]
        [outbound]
        topic = "{{vhost}}{{user}}"
    """

    assert problems_of(text) == [
        (
            "outbound.topic: abguest, for vhost 'ab' and user 'guest', is already the topic of "
            "vhost 'a' and user 'bguest'"
        ),
    ]


def test_an_outbound_topic_fits_into_kafkas_limit():
    assert problems_of(f"[vhosts.{'x' * 240}]") == [
        (
            f"outbound.topic: for vhost '{'x' * 240}' and user 'guest', the topic is longer than "
            "249 characters, Kafka's limit"
        ),
    ]


def test_partitions_are_a_multiple_of_the_lanes():
    text = f"""
        kafka.topic_partitions = 6
        vhosts.a.lanes = 4
        vhosts.b.lanes = 3
        {PUBLISHES}
        partitions = 8
        {COMMANDS}
    """

    assert problems_of(text) == [
        (
            "kafka.topic_partitions: must be a multiple of vhosts.a.lanes = 4: lane is partition "
            "modulo lanes"
        ),
        (
            "inputs[0].partitions: must be a multiple of vhosts.b.lanes = 3: lane is partition "
            "modulo lanes"
        ),
    ]


def test_by_default_every_lane_gets_the_same_number_of_partitions():
    config = parse_config("vhosts.a.lanes = 4\nvhosts.b.lanes = 6\nvhosts.c.lanes = 1")

    assert [config.partitions_of(each) for each in config.inputs] == [12, 12]


def test_partitions_of_an_input_override_those_of_the_cluster():
    config = parse_config(f"kafka.topic_partitions = 2\n{PUBLISHES}partitions = 3\n{COMMANDS}")

    assert [config.partitions_of(each) for each in config.inputs] == [3, 2]


def test_one_lane_gets_one_partition():
    assert JobConfig().partitions_of(JobConfig().inputs[0]) == 1


def test_lanes_that_would_need_too_many_partitions_are_refused():
    assert problems_of("vhosts.a.lanes = 1024\nvhosts.b.lanes = 1023") == [
        (
            "vhosts: an even share for all their lanes needs 1_047_552 partitions, and 10_000 is "
            "the limit: make larger lane counts multiples of smaller ones"
        ),
    ]


def test_a_body_at_its_limit_leaves_room_for_headers():
    fits = parse_config("flow.max_body_bytes = 1_966_080")

    assert fits.flow.max_body_bytes == 1_966_080
    assert problems_of("flow.max_body_bytes = 1_966_081") == [
        (
            "flow.max_body_bytes: must be at most 1_966_080: kafka.max_message_bytes = 2_097_152,"
            " less 131_072 for headers"
        ),
    ]


def test_a_log_has_room_for_a_frame():
    small = """
vhosts.shop.sequenced = {sequenced}
kafka.max_message_bytes = 1_000_000
flow.max_body_bytes = 500_000
"""

    assert problems_of(small.format(sequenced="true")) == [
        "kafka.max_message_bytes: must be at least 1_048_576 where a vhost is sequenced",
    ]
    parse_config(small.format(sequenced="false"))


def test_rules_skip_unreadable_values():
    text = PUBLISHES + 'mapping = { exchange = "x" }\nsource = "commands"\n' + COMMANDS

    assert problems_of(text) == [
        'inputs[0].mapping: needs source = "publishes": a mapped topic has no commands',
    ]


def test_each_source_has_its_topics():
    config = parse_config(PUBLISHES + COMMANDS + FOREIGN)

    assert config.topics_of("publishes") == ("dlx.publishes", "orders")
    assert config.topics_of("commands") == ("dlx.commands",)


CLUSTER = """
[job]
master = "spark://h:7077"
checkpoint_location = "{checkpoint}"
tables_location = "{tables}"
shuffle_partitions = 4
{more}
[flow]
vm_memory_high_watermark = "8GB"
"""


@pytest.mark.parametrize(
    ("checkpoint", "tables", "named"),
    [
        ("checkpoints", "/data/tables", ["job.checkpoint_location", "job.tables_location"]),
        ("file:///data/c", "gs://bucket/tables", ["job.checkpoint_location"]),
        ("/data/checkpoints", "s3://bucket/tables", ["job.checkpoint_location"]),
    ],
)
def test_a_cluster_needs_places_that_every_machine_reaches(checkpoint, tables, named):
    problems = problems_of(CLUSTER.format(checkpoint=checkpoint, tables=tables, more=""))

    assert [problem.partition(":")[0] for problem in problems] == named


def test_a_checkpoint_at_google_needs_the_key_in_a_file():
    storage = 'storage = ["gcs"]\ntables_location = "gs://b/t"\n'
    options = '[tables.storage_options]\nGOOGLE_SERVICE_ACCOUNT_KEY = { env = "KEY" }\n'

    [problem] = problems_of(f'[job]\ncheckpoint_location = "gs://b/c"\n{storage}{options}')

    assert problem.startswith("tables.storage_options.GOOGLE_SERVICE_ACCOUNT_KEY: cannot be used")
    assert "GOOGLE_SERVICE_ACCOUNT = " in problem
    parse_config(f"[job]\n{storage}{options}".replace("storage = ", "# ", 1))


@pytest.mark.parametrize("tables", ["/mnt/dlx/t", "s3://bucket/t"])
def test_a_cluster_uses_a_declared_mount_and_shared_storage(tables):
    mount = 'shared_mount = "/mnt/dlx"'

    config = parse_config(CLUSTER.format(checkpoint="/mnt/dlx/c", tables=tables, more=mount))

    assert config.job.master == "spark://h:7077"


def test_a_folder_beside_the_declared_mount_is_refused():
    mount = 'shared_mount = "/mnt/dlx"'
    text = CLUSTER.format(checkpoint="/mnt/dlx-old/c", tables="/mnt/dlx/t", more=mount)

    [problem] = problems_of(text)

    assert problem.startswith("job.checkpoint_location: ")


SHARED = """
[job]
master = "yarn"
shared_mount = "/mnt/dlx"
checkpoint_location = "/mnt/dlx/c"
tables_location = "s3://bucket/t"
"""


def test_a_cluster_takes_nothing_from_the_drivers_machine():
    assert [problem.partition(":")[0] for problem in problems_of(SHARED)] == [
        "job.shuffle_partitions",
        "flow.vm_memory_high_watermark",
    ]


@pytest.mark.parametrize("mark", ["0", '"8GB"', '{ absolute = "8GB" }'])
def test_a_cluster_with_partitions_and_a_size_is_accepted(mark):
    text = f"{SHARED}shuffle_partitions = 8\n"
    marks = f"[flow]\nvm_memory_high_watermark = {mark}\n"

    assert parse_config(text + marks).job.shuffle_partitions == 8
