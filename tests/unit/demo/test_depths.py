"""Depths followed event by event."""

from streaming.demo.depths import Depth, Depths, Move


def test_a_copy_goes_from_ready_to_unacked_and_back_and_away():
    depths = Depths()
    seen = []

    for kind in ("enqueued", "delivered", "requeued", "delivered", "acked"):
        depths.follow([Move(kind, "work", 7)])
        seen.append(depths.by_queue())

    assert seen == [
        {"work": Depth(1, 0)},
        {"work": Depth(0, 1)},
        {"work": Depth(1, 0)},
        {"work": Depth(0, 1)},
        {},
    ]


def test_events_of_no_copy_change_nothing():
    depths = Depths()

    depths.follow([Move("topology", None, None), Move("warning", "work", None)])

    assert depths.by_queue() == {}


def test_what_an_earlier_run_left_is_known():
    depths = Depths()

    depths.known([(1, "work", "ready"), (2, "work", "unacked"), (3, "dead", "ready")])
    depths.follow([Move("died", "work", 1), Move("requeued", "work", 2)])

    assert depths.by_queue() == {"work": Depth(1, 0), "dead": Depth(1, 0)}
