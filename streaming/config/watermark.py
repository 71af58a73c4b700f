"""The high mark of flow control, in the forms that RabbitMQ takes it."""

import math
import re
from typing import Final

import msgspec

from streaming.config.errors import Place
from streaming.config.toml import kind_of, write_string
from topology.suggestions import did_you_mean

MAX_RELATIVE: Final = 1_024
"""A larger fraction is surely meant as a number of bytes."""

MAX_ABSOLUTE_BYTES: Final = 2**60

_INFORMATION: Final = re.compile(
    r"(?P<number>[0-9]{1,19})((?P<power>[kmgtp])(?P<base>b|i|ib)?)?", re.IGNORECASE
)
_FORMS: Final = 'a fraction (0.4), a size ("2GB") or {absolute = "2GB"}'
_MEMBERS: Final = ("absolute", "relative")


class Relative(msgspec.Struct, frozen=True):
    """A fraction of the memory there is; 0 switches flow control off."""

    fraction: float


class Absolute(msgspec.Struct, frozen=True):
    """A number of bytes; 0 switches flow control off."""

    size_bytes: int


Watermark = Relative | Absolute


def parse_information(text: str) -> int | None:
    """Bytes of a size as RabbitMQ writes it; None if it is none.

    `kB`, `MB`, `GB`, `TB`, `PB` are powers of 1000; `k`, `Ki`, `KiB` and their like powers of 1024;
    a bare number is bytes. Small and capital letters mean the same, and nothing stands between the
    number and its unit.
    """
    found = _INFORMATION.fullmatch(text)
    if found is None:
        return None
    if found["power"] is None:
        return int(found["number"])
    base = 1000 if (found["base"] or "").lower() == "b" else 1024
    multiplier: int = base ** ("kmgtp".index(found["power"].lower()) + 1)
    return int(found["number"]) * multiplier


def write_information(size_bytes: int) -> str:
    """The shortest text that `parse_information` turns into exactly this size."""
    for power in (3, 2):
        for base, units in ((1000, " kB MB GB"), (1024, " KiB MiB GiB")):
            if size_bytes and size_bytes % base**power == 0:
                return f"{size_bytes // base**power}{units.split()[power - 1]}"
    return str(size_bytes)


class WatermarkKind:
    """The kind of `vm_memory_high_watermark`."""

    def read(self, raw: object, place: Place) -> Watermark | None:
        """Read any of the forms."""
        match raw:
            case bool():
                place.report(f"expected {_FORMS}, got a boolean")
                return None
            case int() | float():
                mark: Watermark | None = Relative(_as_float(raw))
            case str():
                mark = _read_absolute(raw, place)
            case dict():
                mark = _read_table(raw, place)
            case _:
                place.report(f"expected {_FORMS}, got {kind_of(raw)}")
                return None
        if mark is None or not _checked(mark, place):
            return None
        return mark

    def check(self, value: object, place: Place) -> None:
        """Check the bounds."""
        assert isinstance(value, Relative | Absolute)
        _checked(value, place)

    def write(self, value: object) -> str:
        """The mark as TOML."""
        if isinstance(value, Absolute):
            return f"{{ absolute = {write_string(write_information(value.size_bytes))} }}"
        assert isinstance(value, Relative)
        return repr(value.fraction)


def _as_float(number: float) -> float:
    """The number as a float; one beyond all floats as infinity, which no bound lets through."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _read_absolute(raw: object, place: Place) -> Absolute | None:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return Absolute(raw)
    size_bytes = parse_information(raw) if isinstance(raw, str) else None
    if size_bytes is None:
        place.report('is no size: write a number and a unit, such as "2GB" or "512MiB"')
        return None
    return Absolute(size_bytes)


def _read_table(raw: dict[str, object], place: Place) -> Watermark | None:
    match raw:
        case {"absolute": size} if len(raw) == 1:
            return _read_absolute(size, place.key("absolute"))
        case {"relative": bool()} if len(raw) == 1:
            pass
        case {"relative": int() | float() as fraction} if len(raw) == 1:
            return Relative(_as_float(fraction))
        case _:
            for name in raw.keys() - set(_MEMBERS):
                place.key(name).report(f"unknown key{did_you_mean(name, _MEMBERS)}")
                return None
    place.report(f"expected {_FORMS}")
    return None


def _checked(mark: Watermark, place: Place) -> bool:
    if isinstance(mark, Absolute):
        fine = 0 <= mark.size_bytes <= MAX_ABSOLUTE_BYTES
        what = f"must be from 0 to {MAX_ABSOLUTE_BYTES:_} bytes"
    else:
        fine = 0 <= mark.fraction <= MAX_RELATIVE
        what = 'must be a fraction of memory, 0 or more; for a number of bytes write "2GB"'
    if not fine:
        place.report(what)
    return fine
