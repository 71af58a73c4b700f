"""Stored vhosts stay readable, and equal vhosts give equal bytes."""

from streaming.broker.state.encoding import unpack
from streaming.broker.state.vhost_codec import decode_vhost, encode_vhost
from topology.declarations import (
    Binding,
    Exchange,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    VhostLimits,
)

STORED = bytes.fromhex(
    "019a04099796a0a6646972656374c3c2c28096aa616d712e646972656374a6646972656374c3c2c28096aa61"
    "6d712e66616e6f7574a666616e6f7574c3c2c28096ab616d712e68656164657273a768656164657273c3c2c2"
    "8096a9616d712e6d61746368a768656164657273c3c2c28096a9616d712e746f706963a5746f706963c3c2c2"
    "8096a178a5746f706963c3c2c281b2616c7465726e6174652d65786368616e6765aa616d712e66616e6f7574"
    "929603a46d696e65c2c3c3809602a171c3c2c281ad782d6d6573736167652d74746ccd03e89195a178a171a5"
    "7175657565a3612e2381a168c401ff9195a170a25e7181aa6d61782d6c656e6774680501a671756575657391"
    "95a16fa081aa6d61782d6c656e6774680300a67175657565739194a3616e6ea161a162a1639194a3616e6ea1"
    "78a161a1629205c0"
)
"""The bytes are those that the first released version wrote."""


def test_a_stored_vhost_stays_readable():
    vhost = decode_vhost(STORED, "4.0")

    declared = vhost.definitions()
    assert declared.queues == (
        Queue("mine", durable=False, auto_delete=True, exclusive=True),
        Queue("q", arguments={"x-message-ttl": 1000}),
    )
    assert Exchange("x", "topic", arguments={"alternate-exchange": "amq.fanout"}) in (
        declared.exchanges
    )
    assert vhost.router.alternate_of("x") == "amq.fanout"
    assert declared.bindings == (Binding("x", "q", "queue", "a.#", {"h": b"\xff"}),)
    assert declared.policies == (Policy("p", "^q", {"max-length": 5}, 1, "queues"),)
    assert declared.operator_policies == (Policy("o", "", {"max-length": 3}, 0, "queues"),)
    assert declared.permissions == (Permission("ann", "a", "b", "c"),)
    assert declared.topic_permissions == (TopicPermission("ann", "x", "a", "b"),)
    assert declared.limits == (VhostLimits(max_connections=5),)
    assert vhost.queue_numbers == {"mine": 3, "q": 2}
    assert (vhost.next_queue_number, vhost.version) == (4, 9)


def test_a_decoded_vhost_is_encoded_to_the_same_bytes_before_what_was_added_since():
    encoded = unpack(encode_vhost(decode_vhost(STORED, "4.0")))

    ten_fields, eleven_fields, no_parameters = b"\x9a", b"\x9b", b"\x90"
    assert encoded == unpack(STORED).replace(ten_fields, eleven_fields, 1) + no_parameters
