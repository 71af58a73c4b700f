"""Sequenced vhosts in `dlx.toml`: their logs, and what they exclude."""

import pytest

from streaming.config import InvalidConfigError, parse_config
from streaming.config.shards import shard_config

SEQUENCED = """
[vhosts."/"]
[vhosts.shop]
sequenced = true
"""


def problems_of(text: str) -> str:
    """What is wrong with a configuration."""
    with pytest.raises(InvalidConfigError) as caught:
        parse_config(text)
    return str(caught.value)


def test_a_log_is_read_with_the_publishes():
    config = parse_config(SEQUENCED)

    assert config.log_topics() == {"shop": "dlx.log.shop"}
    assert config.topics_of("publishes") == ("dlx.publishes", "dlx.log.shop")
    assert config.topics_of("commands") == ("dlx.commands",)
    assert config.read_topics() == ("dlx.publishes", "dlx.commands", "dlx.log.shop")


def test_only_its_log_moves_the_clock_of_a_sequenced_vhost():
    config = parse_config(SEQUENCED)

    assert shard_config(config, "/").clock == "wall"
    assert shard_config(config, "shop", outbound_from=7).clock == "event"
    assert shard_config(config, "shop", outbound_from=7).outbound_from == 1


def test_a_sequenced_vhost_has_one_lane():
    assert "lanes: must be 1 where sequenced = true" in problems_of(
        "[vhosts.shop]\nsequenced = true\nlanes = 2\n"
    )


def test_a_log_has_its_own_topic():
    found = problems_of(
        SEQUENCED + '[amqp]\nlog_topic = "dlx_{vhost}"\n[vhosts.publishes]\nsequenced = true\n'
    )
    assert "dlx_publishes, the log of vhost 'publishes', is already the topic of" in found


def test_mapped_topics_and_commands_may_be_copied_into_a_log():
    config = parse_config(
        '[vhosts.shop]\nsequenced = true\n[vhosts."/"]\n'
        '[[inputs]]\ntopic = "dlx.publishes"\n'
        '[[inputs]]\ntopic = "dlx.commands"\nsource = "commands"\n'
        '[[inputs]]\ntopic = "shop"\n[inputs.mapping]\nexchange = "x"\nvhost = "shop"\n'
        '[[inputs]]\ntopic = "other"\n[inputs.mapping]\nexchange = "x"\nvhost = "/"\n'
        '[[inputs]]\ntopic = "any"\n[inputs.mapping]\nexchange = "x"\nvhost = "{key}"\n'
        '[[inputs]]\ntopic = "some"\n[inputs.mapping]\nexchange = "x"\n'
        "vhost = { record_key = true }\n"
    )

    copied = [each.topic for each in config.inputs if each.may_be_copied]
    feeding = [each.topic for each in config.inputs if each.may_feed("shop")]

    assert copied == ["dlx.commands", "shop", "other", "any", "some"]
    assert feeding == ["shop", "any", "some"]


def test_the_name_of_a_log_contains_the_vhost():
    assert "must contain {vhost} once" in problems_of('[amqp]\nlog_topic = "log"\n')
