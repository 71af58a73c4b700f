"""Documents 000 and 001: alternate exchanges, through real Kafka with the client library."""

import pytest

from streaming.client import AccessRefusedError, UnroutableError
from tests.fixtures.waiting import WAIT_S


@pytest.fixture
def declared(channel, name):
    """The example of both documents: my-direct with the alternate my-ae, and two queues."""
    names = {word: name(word) for word in ("my-direct", "my-ae", "routed", "unrouted")}
    channel.declare_exchange(
        names["my-direct"], "direct", arguments={"alternate-exchange": names["my-ae"]}
    )
    channel.declare_exchange(names["my-ae"], "fanout")
    channel.declare_queue(names["routed"])
    channel.bind_queue(names["routed"], names["my-direct"], "key1")
    channel.declare_queue(names["unrouted"])
    channel.bind_queue(names["unrouted"], names["my-ae"], "")
    return names


def test_document_001_unroutable_messages_are_in_unrouted_and_the_others_in_routed(
    declared, channel, publisher
):
    publisher.publish(declared["my-direct"], "key2", b"test").result(WAIT_S)
    second = channel.get(declared["unrouted"], auto_ack=True)
    publisher.publish(declared["my-direct"], "key1", b"test").result(WAIT_S)
    first = channel.get(declared["routed"], auto_ack=True)

    assert (second.body, second.routing_key) == (b"test", "key2")
    assert (first.body, first.routing_key) == (b"test", "key1")
    assert channel.get(declared["unrouted"]) is None
    assert channel.get(declared["routed"]) is None


def test_document_001_properties_are_kept(declared, channel, publisher):
    properties = {"delivery_mode": 2, "message_id": "m"}
    publisher.publish(declared["my-direct"], "key2", b"x", properties, {"h": 1}).result(WAIT_S)

    delivery = channel.get(declared["unrouted"])

    assert (delivery.properties, delivery.headers) == (properties, {"h": 1})
    assert delivery.exchange == declared["my-direct"]


def test_document_001_mandatory_and_immediate_apply_to_alternate_exchanges(
    declared, channel, publisher
):
    by_alternate = publisher.publish(declared["my-direct"], "key2", b"routed", mandatory=True)
    nobody = publisher.publish(declared["my-direct"], "key1", b"nobody", immediate=True)
    assert by_alternate.result(WAIT_S) is None
    with pytest.raises(UnroutableError, match="313 NO_CONSUMERS"):
        nobody.result(WAIT_S)

    consumer = channel.consume(declared["unrouted"], auto_ack=True)
    taken = publisher.publish(declared["my-direct"], "key1", b"taken", immediate=True)

    assert taken.result(WAIT_S) is None
    assert [consumer.next(WAIT_S).body for _ in range(2)] == [b"routed", b"taken"]


def test_document_000_arguments_override_an_alternate_exchange_by_policy(channel, publisher, name):
    exchange, alternate, other = name("my-direct"), name("my-ae"), name("other")
    unrouted, elsewhere = name("unrouted"), name("elsewhere")
    channel.declare_exchange(exchange, "direct")
    channel.declare_exchange(alternate, "fanout")
    channel.declare_exchange(other, "fanout")
    for queue, source in ((unrouted, alternate), (elsewhere, other)):
        channel.declare_queue(queue)
        channel.bind_queue(queue, source)
    definition = {"alternate-exchange": alternate}
    channel.set_policy("AE", f"^{exchange}", definition, apply_to="exchanges")
    publisher.publish(exchange, "key2", b"by policy").result(WAIT_S)
    declared_otherwise = f"{exchange}-2"
    channel.declare_exchange(declared_otherwise, "direct", arguments={"alternate-exchange": other})

    publisher.publish(declared_otherwise, "key2", b"by argument").result(WAIT_S)
    channel.clear_policy("AE")
    publisher.publish(exchange, "key2", b"dropped").result(WAIT_S)

    assert [each.body for each in channel.get_many(unrouted, 9)] == [b"by policy"]
    assert [each.body for each in channel.get_many(elsewhere, 9)] == [b"by argument"]


def test_document_000_the_default_exchange_has_no_alternate(channel, publisher, name):
    alternate, unrouted = name("my-ae"), name("unrouted")
    channel.declare_exchange(alternate, "fanout")
    channel.declare_queue(unrouted)
    channel.bind_queue(unrouted, alternate)
    channel.set_policy("AE", "^$", {"alternate-exchange": alternate}, apply_to="exchanges")

    returned = publisher.publish("", name("nobody"), b"x", mandatory=True)

    with pytest.raises(UnroutableError, match="312 NO_ROUTE"):
        returned.result(WAIT_S)
    channel.clear_policy("AE")
    assert channel.get(unrouted) is None


def test_document_000_the_chain_continues_until_it_ends_or_repeats(channel, publisher, name):
    first, second, third, caught = name("first"), name("second"), name("third"), name("caught")
    for exchange, alternate in ((first, second), (second, third), (third, first)):
        channel.declare_exchange(exchange, "direct", arguments={"alternate-exchange": alternate})
    in_a_loop = publisher.publish(first, "key", b"in a loop", mandatory=True)
    with pytest.raises(UnroutableError, match="312 NO_ROUTE"):
        in_a_loop.result(WAIT_S)
    channel.declare_queue(caught)
    channel.bind_queue(caught, third, "key")

    publisher.publish(first, "key", b"at the third").result(WAIT_S)

    assert channel.get(caught).body == b"at the third"


def test_document_000_a_missing_alternate_exchange_causes_only_a_warning(channel, publisher, name):
    exchange = name("my-direct")
    channel.declare_exchange(exchange, arguments={"alternate-exchange": name("nothing")})

    assert publisher.publish(exchange, "key2", b"dropped").result(WAIT_S) is None


def test_document_000_the_user_needs_read_on_the_exchange_and_write_on_its_alternate(
    running_job, channel, name
):
    exchange, alternate = name("my-direct"), name("my-ae")
    arguments = {"alternate-exchange": alternate}
    with running_job.connect("clerk") as clerk:
        for read, write, refused in (("", ".*", exchange), (".*", "", alternate)):
            channel.set_permissions("clerk", configure=".*", write=write, read=read)
            with pytest.raises(AccessRefusedError, match=refused):
                clerk.channel().declare_exchange(exchange, arguments=arguments)
        needed = {"read": f"^{exchange}$", "write": f"^{alternate}$"}
        channel.set_permissions("clerk", configure=".*", **needed)
        clerk.channel().declare_exchange(exchange, arguments=arguments)
