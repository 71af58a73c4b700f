"""Does a front notice that somebody else writes the log, and stop exactly when it is fenced off?"""

import pytest

from streaming.protocol.log_records import LogHeader, LogKind
from streaming.sequencer.front_fence import FencedOffError, FrontFence
from streaming.sequencer.log_writer import Acknowledged

EPOCH = Acknowledged(1, 10)


def a_header(kind, epoch):
    return LogHeader(1, epoch, kind)


def test_records_at_the_expected_offsets_are_its_own():
    fence = FrontFence("/", EPOCH)

    fence.acknowledged(Acknowledged(4, 13))

    assert fence.last_own == 13
    assert fence.unread(11) is None


def test_a_record_behind_its_expected_offset_makes_it_read_the_log_once():
    fence = FrontFence("/", EPOCH)

    fence.acknowledged(Acknowledged(2, 12))

    assert fence.last_own == 10
    assert fence.unread(11) == (11, 12)
    assert fence.unread(11) is None  # it has asked


def test_it_goes_on_behind_what_was_compared_with_what_came_meanwhile():
    fence = FrontFence("/", EPOCH)
    fence.acknowledged(Acknowledged(2, 12))
    fence.acknowledged(Acknowledged(5, 15))

    assert not fence.pass_unexpected(12)
    assert fence.pass_unexpected(13)

    assert fence.last_own == 15


def test_a_record_before_its_expected_offset_means_that_records_are_lost():
    fence = FrontFence("/", EPOCH)

    with pytest.raises(FencedOffError, match="a record is at offset 11, and was expected at 12"):
        fence.acknowledged(Acknowledged(3, 11))


@pytest.mark.parametrize(
    ("kind", "epoch", "text"),
    [
        (LogKind.EPOCH, 12, "another front leads it since offset 12"),
        (LogKind.TICK, 10, "unknown record of this front at offset 12"),
    ],
)
def test_a_record_that_is_found_may_fence_it_off(kind, epoch, text):
    with pytest.raises(FencedOffError, match=text):
        FrontFence("/", EPOCH).compare(a_header(kind, epoch), 12)


def test_a_record_of_an_earlier_epoch_does_not():
    FrontFence("/", EPOCH).compare(a_header(LogKind.TICK, 9), 12)
