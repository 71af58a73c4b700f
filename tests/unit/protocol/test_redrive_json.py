"""A letter that the broker or the tables could not represent is refused before it is applied."""

from typing import Any

import msgspec
import pytest

from streaming.broker.redrive_letters import Letter, StoredLetter, Target
from streaming.protocol.redrive_json import letter_fault

STORED = StoredLetter(
    (0, 0, 0),
    2,
    0,
    '{"h": 1}',
    ((1, "expired", "work", 1_600_000_000, "", ("work",), "60000"),),
)


def fault(**changes: Any) -> str:
    stored = msgspec.structs.replace(STORED, **changes)
    return letter_fault(Letter(0, 1, "dead", Target("work", "", ("work",)), 0, stored))


def a_death(time_s: int = 0, expiration: str | None = None) -> Any:
    return ((1, "expired", "work", time_s, "", ("work",), expiration),)


def test_a_stored_letter_is_sound():
    assert fault() == ""
    assert fault(deaths=a_death(), headers=None) == ""


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"size": 1 << 61}, "size must be"),
        ({"size": -1}, "size must be"),
        ({"deaths": a_death(time_s=1 << 61)}, "time of death"),
        ({"deaths": a_death(expiration="soon")}, "original expiration"),
        ({"deaths": a_death(expiration="9" * 5_000)}, "original expiration"),
        ({"deaths": a_death(expiration="\u0663")}, "original expiration"),
        ({"headers": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"}, "headers: too deeply"),
        ({"headers": '{"a":' + "[" * 100 + "]" * 100 + "}"}, "headers: "),
        ({"headers": "{"}, "headers: "),
        ({"priority": -1}, "negative"),
    ],
)
def test_what_cannot_be_represented_is_refused(changes: dict[str, Any], what: str):
    assert what in fault(**changes)
