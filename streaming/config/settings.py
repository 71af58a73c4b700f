"""What a setting is: how its value is read, checked and written, its comment, its part in outcomes.

Each table of `dlx.toml` is a `Section` (sections.py) whose fields carry a `Setting`:

    trigger_ms: Annotated[int, Setting(milliseconds(most=HOUR_MS), "Pause between ...")] = 100

So a field's bounds, its comment in `dlx config show` and whether it can change a result stand in
one place, and reading, showing and hashing need no further list of fields. A field whose default is
None is optional: it is left out of the file rather than set to nothing, since TOML has no null.
"""

from typing import Protocol, runtime_checkable

import msgspec

from streaming.config.errors import Place


class Kind(Protocol):
    """The values that a setting can have.

    `read` takes a value as tomllib gives it and `check` one that code has put into a section;
    both report what is wrong at `place`, and `read` then returns None.
    """

    def read(self, raw: object, place: Place) -> object | None:
        """The value, or None if something was reported."""

    def check(self, value: object, place: Place) -> None:
        """Report what is wrong with a value."""


@runtime_checkable
class Inline(Kind, Protocol):
    """A kind whose values are written behind the `=`; the others are tables with a header."""

    def write(self, value: object) -> str:
        """The value as TOML."""


class Setting(msgspec.Struct, frozen=True):
    """What there is to know of a field beyond its type and default.

    Attributes:
        kind: its values.
        comment: unit, meaning, and the reason for the default; printed by `dlx config show`.
        outcome: whether another value can give the same records another result (outcome.py).
        example: what to show where an optional setting is not set.
        stand_in: what to go on reading with where a required setting is unreadable, so that the
            rest of its table is looked at too.
    """

    kind: Kind
    comment: str
    outcome: bool = False
    example: str = ""
    stand_in: object = None
