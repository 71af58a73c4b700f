"""Limits in bytes: a queue that is exactly full accepts nothing more, and loses nothing."""

import pytest

from tests.builders import Broker

CUT = pytest.mark.parametrize("cut", [False, True])


@CUT
def test_r_len_8_a_publish_is_accepted_up_to_the_very_byte_of_the_limit(cut):
    broker = Broker(cut=cut)
    broker.queue("q", max_length_bytes=10, overflow="reject-publish")

    for body, size in (("m1", 6), ("m2", 5), ("m3", 4), ("m4", 1)):
        broker.publish("", "q", body, size=size)

    assert broker.drain("q") == ["m1", "m3"]


@CUT
def test_r_len_6_heads_die_only_until_the_queue_is_exactly_full(cut):
    broker = Broker(cut=cut)
    broker.queue("q", max_length_bytes=10)

    for number in range(3):
        broker.publish("", "q", f"m{number}", size=5)

    assert broker.drain("q") == ["m1", "m2"]


@CUT
def test_r_len_4_a_requeue_into_a_queue_that_is_then_exactly_full_drops_nothing(cut):
    broker = Broker(cut=cut)
    broker.queue("q", max_length_bytes=10)
    for number in range(2):
        broker.publish("", "q", f"m{number}", size=5)
    broker.get("q", "g")

    broker.reject("g/0", requeue=True)

    assert broker.drain("q") == ["m0", "m1"]
