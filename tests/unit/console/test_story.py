"""A message's life as a picture: stays in rows of their queues, in the order of time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from streaming.console.story import LEFT, MAX_BARS, WIDTH, story_of
from streaming.queries.life.copies import CopyLife, Hold

END = datetime(2026, 11, 25, 12, tzinfo=UTC)


def at(seconds):
    return (END - timedelta(hours=1) + timedelta(seconds=seconds)).isoformat()


def a_life(turns):
    """A message that dies in `work` and waits in `retry`, again and again."""
    copies = []
    for number in range(turns):
        queue = "retry" if number % 2 else "work"
        copy = CopyLife(number, number - 1 if number else None, number, queue, at(number * 60))
        copy.left_at, copy.end = at(number * 60 + 60), "died"
        copy.reason = "expired" if number % 2 else "rejected"
        if queue == "work":
            begun, ended = at(number * 60 + 1), at(number * 60 + 60)
            copy.holds.append(Hold("anna", "c1", begun, ended, "died"))
        copies.append(copy)
    copies[-1].left_at = copies[-1].end = copies[-1].reason = None
    return copies


def test_a_retried_message_goes_to_and_fro_between_two_rows():
    story = story_of(a_life(5), END)

    assert story is not None
    assert [name for name, _whole in story.rows] == ["work", "retry"]
    assert [bar.row for bar in story.bars] == [0, 1, 0, 1, 0]
    assert [(way.from_row, way.to_row, way.tone) for way in story.ways] == [
        (0, 1, "bad"),
        (1, 0, "bad"),
    ] * 2
    assert [bar.tone for bar in story.bars] == ["bad"] * 4 + [""]
    assert story.bars[-1].said == "still here"
    assert story.bars[0].wait == "60 s"
    assert "5 stays in 2 queues within 60 min, with 4 deaths" in story.summary


def test_time_goes_to_the_right_and_stays_in_the_picture():
    story = story_of(a_life(9), END)

    assert story is not None
    places = [bar.whole.x for bar in story.bars]
    assert places[0] == LEFT
    assert all(first < second for first, second in pairwise(places))
    for bar in story.bars:
        assert bar.whole.x + bar.whole.width <= WIDTH
        assert all(bar.whole.x <= part.x for part in bar.held)
        assert all(part.x + part.width <= bar.whole.x + bar.whole.width + 0.2 for part in bar.held)
    ticks = [tick.x for tick in story.ticks]
    assert all(second - first > 20 for first, second in pairwise(ticks))


def test_copies_in_one_queue_at_the_same_time_have_a_row_each():
    copies = [CopyLife(number, None, 0, "work", at(0)) for number in range(3)]

    story = story_of(copies, END)

    assert story is not None
    assert [bar.row for bar in story.bars] == [0, 1, 2]


def test_a_redrive_names_who_did_it():
    [first, second] = a_life(2)
    first.end, first.reason = "redriven", None

    story = story_of([first, second], END, {0: "olga"})

    assert story is not None
    assert story.bars[0].said == "redriven by olga"
    assert [way.tone for way in story.ways] == ["moved"]


def test_a_long_life_is_drawn_in_part_and_says_so():
    story = story_of(a_life(MAX_BARS + 7), END)

    assert story is not None
    assert (len(story.bars), story.left_out) == (MAX_BARS, 7)


@pytest.mark.parametrize("enqueued_at", [None, at(0)])
def test_a_stay_without_length_or_beginning_can_be_seen(enqueued_at):
    copy = CopyLife(0, None, 0, "work", enqueued_at, left_at=at(0), end="acked")

    story = story_of([copy], END)

    assert story is not None
    assert story.bars[0].whole.width >= 1
    assert story.bars[0].said == "acked"


def test_without_a_copy_there_is_no_picture():
    assert story_of([], END) is None
