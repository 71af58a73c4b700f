"""Flow control with two topics, either of which may lag."""

import pytest

from streaming.client._transport.flow import Flow


@pytest.mark.parametrize(
    ("said", "is_open"),
    [
        ([(1, False)], False),
        ([(1, False), (2, True)], True),
        ([(1, False), (0, True)], False),  # a heartbeat from before the notice
        ([(2, True), (1, False)], True),
        ([(1, False), (1, False), (2, True), (2, True)], True),
        ([(0, True)], True),
    ],
)
def test_the_latest_change_counts_in_whatever_order_they_are_read(said, is_open):
    flow = Flow()

    for seq, active in said:
        flow.notice(seq, active=active)

    assert flow.is_open == is_open
