"""Queue depths, updated by every event."""

from streaming.demo.job_observer import CopyEvent, Depth, Depths


def test_a_copy_moves_between_ready_and_unacked_and_leaves():
    depths = Depths()
    seen = []

    for kind in ("enqueued", "delivered", "requeued", "delivered", "acked"):
        depths.apply([CopyEvent(kind, "work", 7)])
        seen.append(depths.by_queue())

    assert seen == [
        {"work": Depth(1, 0)},
        {"work": Depth(0, 1)},
        {"work": Depth(1, 0)},
        {"work": Depth(0, 1)},
        {},
    ]


def test_events_without_a_copy_change_no_depth():
    depths = Depths()

    depths.apply([CopyEvent("topology", None, None), CopyEvent("warning", "work", None)])

    assert depths.by_queue() == {}


def test_copies_of_an_earlier_run_are_loaded():
    depths = Depths()

    depths.load([(1, "work", "ready"), (2, "work", "unacked"), (3, "dead", "ready")])
    depths.apply([CopyEvent("died", "work", 1), CopyEvent("requeued", "work", 2)])

    assert depths.by_queue() == {"work": Depth(1, 0), "dead": Depth(1, 0)}


def test_deaths_are_counted_by_reason_and_by_queue():
    depths = Depths()

    depths.apply([CopyEvent("died", "work", 1, "expired"), CopyEvent("died", "work", 2, "maxlen")])

    assert depths.deaths == {"expired": 1, "maxlen": 1}
    assert depths.died_in == {"work": 2}
