"""`[flow]`: when publishers are held back, and how large a record may be."""

import re
from typing import Any, Final

import attrs

from streaming.config import types
from streaming.machine_memory import Memory

MEBIBYTE: Final = 1_048_576

MAX_RELATIVE: Final = 1_024
"""A larger fraction is certainly meant as a number of bytes."""

MAX_ABSOLUTE_BYTES: Final = 2**60

_SIZE: Final = re.compile(
    r"(?P<number>[0-9]{1,19})((?P<power>[kmgtp])(?P<base>b|i|ib)?)?", re.IGNORECASE
)
_MEMBERS: Final = ("absolute", "relative")
_FORMS: Final = 'a fraction (0.4), a size ("2GB") or {absolute = "2GB"}'


@attrs.frozen
class Relative:
    """A high mark as a fraction of the memory; 0 switches flow control off."""

    fraction: float

    def toml(self) -> float:
        """The form it has in `dlx.toml`."""
        return self.fraction


@attrs.frozen
class Absolute:
    """A high mark in bytes; 0 switches flow control off."""

    size_bytes: int

    def toml(self) -> dict[str, str]:
        """The form it has in `dlx.toml`."""
        return {"absolute": write_size(self.size_bytes)}


Watermark = Relative | Absolute


def parse_size(text: str) -> int | None:
    """Bytes of a size as RabbitMQ writes it; None if it is not a size.

    `kB`, `MB`, `GB`, `TB`, `PB` are powers of 1000; `k`, `Ki`, `KiB` and so on powers of 1024; a
    bare number is bytes. Case does not matter, and nothing stands between number and unit.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    if found["power"] is None:
        return int(found["number"])
    base = 1000 if (found["base"] or "").lower() == "b" else 1024
    multiplier: int = base ** ("kmgtp".index(found["power"].lower()) + 1)
    return int(found["number"]) * multiplier


def write_size(size_bytes: int) -> str:
    """The shortest text that `parse_size` turns into exactly this size."""
    for power in (3, 2):
        for base, units in ((1000, " kB MB GB"), (1024, " KiB MiB GiB")):
            if size_bytes and size_bytes % base**power == 0:
                return f"{size_bytes // base**power}{units.split()[power - 1]}"
    return str(size_bytes)


def _read_watermark(raw: Any) -> Watermark:
    """Read a high mark in any of the forms that RabbitMQ accepts."""
    mark: Any = raw
    match raw:
        case Relative(value) | {"relative": value} if not isinstance(raw, dict) or len(raw) == 1:
            mark = value
        case str():
            mark = _read_absolute(raw)
        case {"absolute": value} if len(raw) == 1:
            mark = _read_absolute(value, "absolute")
        case dict():
            types.refuse(types.unknown_keys(raw, _MEMBERS))
        case _:
            pass
    if isinstance(mark, Absolute):
        if not 0 <= mark.size_bytes <= MAX_ABSOLUTE_BYTES:
            raise types.invalid(f"must be from 0 to {MAX_ABSOLUTE_BYTES:_} bytes")
        return mark
    if not isinstance(mark, int | float) or isinstance(mark, bool):
        got = "" if isinstance(raw, dict) else f", got {types.kind_of(raw)}"
        raise types.invalid(f"expected {_FORMS}{got}")
    if not 0 <= mark <= MAX_RELATIVE:
        raise types.invalid(
            'must be a fraction of memory, 0 or more; for a number of bytes write "2GB"'
        )
    return Relative(float(mark))


def _read_absolute(raw: Any, path: str = "") -> Absolute:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return Absolute(raw)
    size_bytes = parse_size(raw) if isinstance(raw, str) else None
    if size_bytes is None:
        what = 'is not a valid size: write a number and a unit, such as "2GB" or "512MiB"'
        raise types.invalid(what, path)
    return Absolute(size_bytes)


def high_mark_bytes(watermark: Watermark, memory: Memory) -> int | None:
    """The high mark in bytes; None: there is none.

    A fraction above 1 scales the memory that is assumed when none is detected; otherwise it means
    1.
    """
    if isinstance(watermark, Absolute):
        return watermark.size_bytes or None
    fraction = min(watermark.fraction, 1.0) if memory.known else watermark.fraction
    return max(1, int(memory.total_bytes * fraction)) if fraction else None


@attrs.frozen(kw_only=True)
class FlowSettings(types.Section):
    """Flow control, and the sizes that keep one batch within bounds."""

    vm_memory_high_watermark: Watermark = types.setting(
        Relative(0.4),
        "The high mark of memory. Above it the job reads no publishes until consumers have caught "
        "up; it always reads commands. It limits the size of all messages that are not settled, "
        "bodies included. A front does not read from publishing connections above it, and counts "
        "the messages of the sequenced vhosts that it leads; the job counts those of all others. A "
        "fraction of memory, such as RabbitMQ's 0.4, also limits the memory of the job's "
        'processes; a size, such as { absolute = "2GB" }, does not. 0: never. If memory cannot be '
        "detected, 1024 MB is assumed; a value above 1 then scales that.",
        types.Kind(
            _FORMS,
            _read_watermark,
            f"a fraction from 0 to {types.write_whole(MAX_RELATIVE)}, or a size",
        ),
    )
    low_mark_fraction: float = types.setting(
        0.8,
        "The low mark, as a fraction of the high mark. Below it publishes are read again. The gap "
        "between the two marks prevents rapid switching.",
        types.fraction(),
    )
    max_body_bytes: int = types.setting(
        MEBIBYTE,
        "A publish with a longer body is quarantined. 1 MiB is about the default limit of a Kafka "
        "producer.",
        types.size(1, 1_000 * MEBIBYTE),
        outcome=True,
    )
    max_header_bytes: int = types.setting(
        16_384,
        "A record with more bytes of headers is quarantined: headers are part of the state of a "
        "resident message, bodies are not.",
        types.size(1_024, MEBIBYTE),
        outcome=True,
    )
