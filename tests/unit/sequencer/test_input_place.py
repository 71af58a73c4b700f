"""Where copying from an input begins, and when it is refused."""

import logging

import pytest

from streaming.sequencer.input_place import Bounds, InputChangedError, InputPlace

HAS = Bounds(10, 50, lambda: 5)


def place(*, accepts_loss: bool = False) -> InputPlace:
    return InputPlace("log", "in", 2, accepts_loss)


@pytest.mark.parametrize(
    ("wanted", "was", "committed", "begin"),
    [
        (None, None, 5, 10),  # nothing was copied
        (None, "other", 5, 10),
        (30, "a", 5, 30),
        (50, "a", 5, 50),
        (30, None, 5, 30),  # an earlier version did not say of which topic
        (8, "a", 10, 10),  # the rest was read, and was for others
    ],
)
def test_copying_goes_on_behind_what_was_copied(wanted, was, committed, begin, caplog):
    has = HAS._replace(committed=lambda: committed)

    with caplog.at_level(logging.WARNING):
        assert place().begin(has, wanted, (was, "a")) == begin

    assert caplog.text == ""


def test_records_that_were_never_read_are_named_as_lost(caplog):
    assert place().begin(HAS, 8, ("a", "a")) == 10

    assert "from offset 8 on, and Kafka has 10 to 49" in caplog.text


@pytest.mark.parametrize("wanted", [30, 51])
def test_a_topic_that_was_made_again_is_refused(wanted, caplog):
    with pytest.raises(InputChangedError, match="input in was deleted and made again") as error:
        place().begin(HAS, wanted, ("a", "b"))

    assert "--accept-loss" in str(error.value)
    assert error.value.help_code == "log-too-short"
    assert place(accepts_loss=True).begin(HAS, wanted, ("a", "b")) == 10
    assert "partition 2" in caplog.text


def test_a_topic_that_has_lost_its_end_is_refused_and_nothing_is_copied_twice():
    for was in ("a", None):
        with pytest.raises(
            InputChangedError, match=r"ends at offset 50, and was copied .* up to 51"
        ):
            place().begin(HAS, 51, (was, "a"))

    assert place(accepts_loss=True).begin(HAS, 51, ("a", "a")) == 50
