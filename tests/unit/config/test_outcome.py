"""What changes the outcome hash, and what does not: field by field."""

import pytest

from streaming.config import (
    JobConfig,
    outcome_changes,
    outcome_hash,
    outcome_settings,
    parse_config,
)
from tests.unit.config.changes import BASE, CHANGES, with_change

# Which settings can give the same records another result. Kept by hand: a new setting must be
# thought about, in `changes.py` and here.
CHANGE_THE_OUTCOME = {
    "job.clock",
    "job.compat",
    "vhosts.shop.lanes",
    "vhosts.shop.lane_by",
    "vhosts.shop.sequenced",
    "vhosts.shop.default_delivery_limit",
    "vhosts.shop.consumer_timeout_ms",
    "users.alice.administrator",
    "users.alice.impersonator",
    "inputs[2].topic",
    "inputs[2].source",
    "inputs[2].user",
    "inputs[3].mapping",
    "inputs[3].mapping.vhost",
    "inputs[3].mapping.exchange",
    "inputs[3].mapping.routing_key",
    "inputs[3].mapping.message_id",
    "inputs[3].mapping.timestamp",
    "inputs[3].mapping.headers",
    "outbound.topic",
    "amqp.log_topic",
    "flow.max_body_bytes",
    "flow.max_header_bytes",
}


def hash_of(config: JobConfig, *, core_version: int = 1, wire_version: int = 1) -> str:
    return outcome_hash(config, core_version=core_version, wire_version=wire_version)


@pytest.mark.parametrize("path", CHANGES)
def test_a_setting_changes_the_hash_if_and_only_if_it_can_change_a_result(path):
    changed = with_change(path)

    assert changed != BASE
    assert (hash_of(changed) != hash_of(BASE)) == (path in CHANGE_THE_OUTCOME)


def test_every_setting_that_changes_the_outcome_is_tested():
    assert set(CHANGES) >= CHANGE_THE_OUTCOME


@pytest.mark.parametrize(
    "text",
    [
        '[vhosts."/"]\n[vhosts.shop]\n[vhosts.new]',
        '[vhosts."/"]',
        "[users.guest]\n[users.alice]\n[users.new]",
    ],
)
def test_adding_or_removing_a_vhost_or_user_changes_the_hash(text):
    config = parse_config(text)
    base = parse_config('[vhosts."/"]\n[vhosts.shop]\n[users.guest]\n[users.alice]')

    assert hash_of(config) != hash_of(base)


def test_adding_an_input_changes_the_hash():
    one_more = JobConfig(inputs=(*JobConfig().inputs, BASE.inputs[2]), users=BASE.users)

    assert hash_of(one_more) != hash_of(JobConfig(users=BASE.users))


def test_the_versions_of_core_and_wire_change_the_hash():
    hashes = {
        hash_of(BASE),
        hash_of(BASE, core_version=2),
        hash_of(BASE, wire_version=2),
        hash_of(BASE, core_version=2, wire_version=2),
    }

    assert len(hashes) == 4


def test_the_hash_does_not_depend_on_the_order_of_tables_or_inputs():
    one = parse_config("""
        [vhosts.a]
        [vhosts.b]
        [users.guest]
        [users.x]
        [[inputs]]
        topic = "p"
        [[inputs]]
        topic = "c"
        source = "commands"
    """)
    other = parse_config("""
        [[inputs]]
        source = "commands"
        topic = "c"
        [[inputs]]
        topic = "p"
        [users.x]
        [users.guest]
        [vhosts.b]
        [vhosts.a]
    """)

    assert hash_of(one) == hash_of(other)


def test_the_hash_is_the_same_in_every_run():
    assert hash_of(JobConfig()) == (
        "6b43fd2e226c533b3192a80829a422376816f9aef95f3f7a5754794d829e1f8b"
    )


def test_the_default_settings_that_are_hashed_are_known():
    assert outcome_settings(JobConfig()) == {
        "amqp.log_topic": "dlx.log.{vhost}",
        "flow.max_body_bytes": 1_048_576,
        "flow.max_header_bytes": 16_384,
        'inputs["dlx.commands"].source': "commands",
        'inputs["dlx.commands"].topic': "dlx.commands",
        'inputs["dlx.commands"].user': "guest",
        'inputs["dlx.publishes"].source': "publishes",
        'inputs["dlx.publishes"].topic': "dlx.publishes",
        'inputs["dlx.publishes"].user': "guest",
        "job.clock": "wall",
        "job.compat": "4.0",
        "outbound.topic": "dlx.out.{vhost}.{user}",
        "users.guest.administrator": True,
        "users.guest.edit_letters": False,
        "users.guest.impersonator": False,
        'vhosts."/".consumer_timeout_ms': 1_800_000,
        'vhosts."/".default_delivery_limit': None,
        'vhosts."/".lane_by': "partition",
        'vhosts."/".lanes': 1,
        'vhosts."/".sequenced': False,
    }


def test_changed_settings_are_listed_with_both_values():
    before = outcome_settings(JobConfig())
    after = outcome_settings(
        parse_config("""
            job.compat = "3.10"
            vhosts."/" = { lanes = 2, default_delivery_limit = 5 }
            [users.guest]
            [users.x]
        """)
    )

    assert outcome_changes(before, after) == (
        'job.compat: was "4.0", now "3.10"',
        "users.guest.administrator: was true, now false",
        "users.x.administrator: was not set, now false",
        "users.x.edit_letters: was not set, now false",
        "users.x.impersonator: was not set, now false",
        'vhosts."/".default_delivery_limit: was not set, now 5',
        'vhosts."/".lanes: was 1, now 2',
    )
    assert outcome_changes(before, before) == ()


def test_different_sources_of_a_routing_key_have_different_hashes():
    written = [
        '""',
        '"record_key"',
        "{ record_key = true }",
        '{ record_key = true, otherwise = "" }',
        '{ header = "h" }',
        '{ header = "h", otherwise = "" }',
        '{ header = "g" }',
    ]
    configs = [
        parse_config(f"""
            [[inputs]]
            topic = "c"
            source = "commands"
            [[inputs]]
            topic = "f"
            mapping = {{ exchange = "x", routing_key = {each} }}
        """)
        for each in written
    ]

    assert len({hash_of(config) for config in configs}) == len(written)
