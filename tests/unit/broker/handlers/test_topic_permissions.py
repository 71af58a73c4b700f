"""Topic permissions and user_id: what a user may publish and bind (R-PERM-1, R-USER-1)."""

from typing import Any

import pytest

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Actor, Kind
from streaming.broker.message import Message, Publication
from streaming.broker.outbound import PublishErrorOut
from streaming.broker.redrives.version_keys import VERSION_KEY
from tests.builders import Broker
from topology.declarations import Binding, TopicPermission
from topology.refusals import Refusal

CUT = pytest.mark.parametrize("cut", [False, True])
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def a_broker(*, cut: bool = False, **config: Any) -> Broker:
    """The user u may write to topics that begin with their name and vhost, and read those of r."""
    broker = Broker(
        cut=cut, vhost="v", enforce_permissions=True, administrators=("admin",), **config
    )
    broker.queue("q")
    broker.do(commands.SetPermissions(user="u", **EVERYTHING))
    permit(broker, write=r"^{username}-{vhost}\.", read="^r")
    return broker


def permit(broker: Broker, *, write: str, read: str) -> Refusal | None:
    return broker.refusal(
        commands.SetTopicPermissions(user="u", exchange="amq.topic", write=write, read=read)
    )


def publish(broker: Broker, publication: Publication, user: str | None = "u") -> Refusal | None:
    """The refusal of a publish."""
    before = len(broker.shard.outbound)
    message = Message(0, 0, len(broker.bodies), 0, 0, 1)
    broker.bodies.append("m")
    broker.shard.publish(broker.time_ms, message, publication, 0, Actor(user, "pub"))
    errors = [
        one.refusal for one in broker.shard.outbound[before:] if isinstance(one, PublishErrorOut)
    ]
    return errors[0] if errors else None


def of_topic(key: str, **fields: Any) -> Publication:
    return Publication("amq.topic", key, **fields)


@CUT
@pytest.mark.parametrize(
    ("exchange", "key", "user", "refused"),
    [
        ("amq.topic", "a.b", "u", True),
        ("amq.topic", "u-v.x", "u", False),
        ("amq.topic", "u-v-x", "u", True),
        ("amq.direct", "a.b", "u", False),
        ("amq.topic", "a.b", None, False),
        ("amq.topic", "a.b", "admin", False),
    ],
)
def test_r_perm_1_a_topic_permission_restricts_the_keys_of_its_exchange(
    cut, exchange, key, user, refused
):
    broker = a_broker(cut=cut)
    text = "ACCESS_REFUSED - write access to topic '{}' in exchange 'amq.topic' in vhost 'v'"
    text = text.format(key) + " refused for user 'u'"

    refusal = Refusal(403, text) if refused else None

    for _ in range(2):
        assert publish(broker, Publication(exchange, key), user) == refusal
    check = commands.Check(
        steps=(commands.CheckedPublish(exchange=exchange, routing_key=key),), channel="c"
    )
    assert broker.refusal(check, user=user) == refusal


@CUT
def test_r_perm_1_binding_reads_from_a_topic(cut):
    broker = a_broker(cut=cut)
    allowed, forbidden = (Binding("amq.topic", "q", routing_key=key) for key in ("r.a", "a.b"))

    assert broker.refusal(commands.Bind(binding=allowed), user="u") is None
    text = "ACCESS_REFUSED - read access to topic 'a.b' in exchange 'amq.topic' in vhost 'v'"
    refusal = Refusal(403, f"{text} refused for user 'u'")
    for command in (commands.Bind(binding=forbidden), commands.Unbind(binding=forbidden)):
        assert broker.refusal(command, user="u") == refusal
    to_exchange = Binding("amq.topic", "amq.fanout", "exchange", "a.b")
    assert broker.refusal(commands.Bind(binding=to_exchange), user="u") == refusal


@pytest.mark.parametrize(("compat", "refused"), [("4.0", True), ("3.10", False)])
def test_r_perm_1_the_keys_of_cc_are_checked_since_4_0(compat, refused):
    broker = a_broker(compat=compat)

    refusal = publish(broker, of_topic("u-v.x", headers={"CC": ["a.b"]}))

    assert (refusal is not None) == refused


def test_3_10_does_not_say_which_access_is_refused():
    broker = a_broker(compat="3.10")

    refusal = publish(broker, of_topic("a.b"))

    text = "access to topic 'a.b' in exchange 'amq.topic' in vhost 'v' refused for user 'u'"
    assert refusal == Refusal(403, f"ACCESS_REFUSED - {text}")


@CUT
def test_an_empty_pattern_matches_nothing_but_the_empty_key(cut):
    broker = a_broker(cut=cut)
    permit(broker, write="", read="")

    assert publish(broker, of_topic("a")) is not None
    assert publish(broker, of_topic("")) is None


def test_a_pattern_that_the_name_of_the_vhost_makes_unusable_allows_nothing():
    broker = Broker(vhost="(", enforce_permissions=True)
    broker.do(commands.SetPermissions(user="u", **EVERYTHING))
    permit(broker, write="{vhost}", read="")

    refusal = publish(broker, of_topic("("))

    assert refusal is not None
    assert refusal.code == 403


@CUT
def test_a_cleared_topic_permission_restricts_no_more(cut):
    broker = a_broker(cut=cut)
    broker.do(commands.ClearTopicPermissions(user="u", exchange="other"))
    assert publish(broker, of_topic("a")) is not None

    broker.do(commands.ClearTopicPermissions(user="u"))

    assert publish(broker, of_topic("a")) is None
    broker.do(commands.ClearTopicPermissions(user="u"))
    *_, (_, cleared) = broker.of_kind(Kind.TOPOLOGY)
    assert cleared == {
        "what": "topic_permissions_cleared",
        "name": "",
        "user": "u",
        "exchange": "amq.topic",
    }
    assert broker.shard.vhost.topic_permissions.permissions() == []


def test_a_set_topic_permission_is_an_event_and_part_of_the_definitions():
    broker = a_broker()

    *_, (_, detail) = broker.of_kind(Kind.TOPOLOGY)

    declaration = {"exchange": "amq.topic", "write": r"^{username}-{vhost}\.", "read": "^r"}
    assert detail["what"] == "topic_permissions_set"
    assert detail["declaration"] == {"user": "u", **declaration}
    assert broker.shard.vhost.definitions().topic_permissions == (
        TopicPermission("u", **declaration),
    )
    page: Any = broker.answer(commands.ExportDefinitions())
    assert ["topic_permissions", {"vhost": "v", "user": "u", **declaration}] in map(
        list, page["objects"]
    )


def test_only_administrators_change_topic_permissions_and_patterns_are_checked():
    broker = a_broker()
    clear = commands.ClearTopicPermissions(user="u")
    allow = commands.SetTopicPermissions(user="u", exchange="x", write="", read="")

    for command in (clear, allow):
        refusal = broker.refusal(command, user="u")
        assert refusal is not None
        assert refusal.code == 403
    broken = permit(broker, write="(", read="")
    assert broken is not None
    assert broken.code == 406


def test_imported_topic_permissions_are_in_force():
    broker = a_broker()
    entry = {"user": "u", "vhost": "v", "exchange": "amq.topic", "write": "^w", "read": ""}
    command = commands.ImportDefinitions(definitions={"topic_permissions": [entry]})

    assert broker.answer(command) == {"imported": 1, "skipped": []}

    assert publish(broker, of_topic("w")) is None
    assert publish(broker, of_topic("u-v.x")) is not None


# -- user_id


def mismatch(user_id: str) -> Refusal:
    text = f"user_id property set to '{user_id}' but authenticated user was 'u'"
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize(
    ("user_id", "user", "refusal"),
    [
        ("other", "u", mismatch("other")),
        ("u", "u", None),
        (None, "u", None),
        ("other", None, None),
        ("other", "spoof", None),
    ],
)
def test_r_user_1_a_message_names_its_own_publisher(user_id, user, refusal):
    broker = Broker(impersonators=("spoof",))
    broker.queue("q")
    publish(broker, Publication("", "q"), user)

    assert publish(broker, Publication("", "q", user_id=user_id), user) == refusal
    assert broker.depth("q") == (1 if refusal else 2)
    step = commands.CheckedPublish(routing_key="q", user_id=user_id)
    assert broker.refusal(commands.Check(steps=(step,)), user=user) == refusal


def test_r_user_1_the_version_of_a_letter_keeps_the_user_who_published_it():
    broker = Broker(editors=("u",))
    broker.queue("q")
    version = Publication("", f"{VERSION_KEY}{'a' * 64}", user_id="other")

    assert publish(broker, version, "u") is None
    broker.finish()
    assert [row.kind for row in broker.rows][-1] is Kind.EDITED


@pytest.mark.parametrize(
    ("compat", "code", "beginning"),
    [("4.0", 406, "PRECONDITION_FAILED - invalid exp"), ("3.10", 403, "ACCESS_REFUSED - access")],
)
def test_r_user_1_what_is_checked_first(compat, code, beginning):
    broker = a_broker(compat=compat)

    refusal = publish(broker, of_topic("a", user_id="other", expiration="x"))

    assert refusal is not None
    assert refusal.code == code
    assert refusal.text.startswith(beginning)


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
def test_r_user_1_topics_are_checked_before_user_ids(compat):
    broker = a_broker(compat=compat)

    refusal = publish(broker, of_topic("a", user_id="other"))

    assert refusal is not None
    assert refusal.code == 403


def test_r_user_1_3_10_checks_user_ids_before_expirations():
    broker = a_broker(compat="3.10")

    refusal = publish(broker, of_topic("u-v.x", user_id="other", expiration="x"))

    assert refusal == mismatch("other")


def test_nobody_impersonates_by_default():
    assert ShardConfig().impersonators == ()


def test_r_set_11_recover_without_requeue_is_not_implemented():
    broker = Broker()
    broker.queue("q")
    broker.publish("", "q", "m")
    broker.get("q", "g", channel="c0")

    refusal = broker.refusal(commands.Recover(channel="c0", requeue=False))

    assert refusal == Refusal(540, "NOT_IMPLEMENTED - requeue=false")
    assert refusal.is_of_connection
