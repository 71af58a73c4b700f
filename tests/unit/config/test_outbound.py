"""The outbound topic of a vhost and user."""

import pytest

from streaming.config import InvalidConfigError, OutboundSettings, parse_config


@pytest.mark.parametrize(
    ("vhost", "user", "topic"),
    [
        ("/", "guest", "dlx.out._2f.guest"),
        ("shop-1", "A9", "dlx.out.shop-1.A9"),
        ("a.b", "c_d", "dlx.out.a_2eb.c_5fd"),
        ("é", "{user}", "dlx.out._c3_a9._7buser_7d"),
        ("_2f", "x", "dlx.out._5f2f.x"),
    ],
)
def test_other_characters_are_escaped_so_that_names_stay_distinct(vhost, user, topic):
    assert OutboundSettings().topic_of(vhost, user) == topic


def test_every_vhost_has_a_topic_for_every_user():
    config = parse_config("""
        outbound.topic = "t.{user}.{vhost}"
        [vhosts.a]
        [vhosts.b]
        [users.guest]
        [users.x]
    """)

    assert config.outbound_topics() == {
        ("a", "guest"): "t.guest.a",
        ("a", "x"): "t.x.a",
        ("b", "guest"): "t.guest.b",
        ("b", "x"): "t.x.b",
    }


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("out.{vhost}", "must contain {user} once: each pair of vhost and user has its own topic"),
        ("out.{user}", "must contain {vhost} once: each pair of vhost and user has its own topic"),
        (
            "{user}.{vhost}.{user}",
            "must contain {user} once: each pair of vhost and user has its own topic",
        ),
        (
            "{vhost}.{user}.{channel}",
            "must consist of letters, digits, '.', '_' and '-', as Kafka requires",
        ),
    ],
)
def test_a_pattern_that_would_mix_tenants_is_refused(pattern, fault):
    with pytest.raises(InvalidConfigError) as caught:
        OutboundSettings(topic=pattern)

    assert str(caught.value) == f"topic: {fault}"
