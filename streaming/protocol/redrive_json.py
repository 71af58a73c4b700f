"""Reading and writing the letters and options of a redrive, as commands and sealed plans hold them.

[lane, copy_id, queue, [target queue or null, exchange, [keys]] or null, published_ms, stored, edit]
"""

from typing import Any, Final, TypeVar

import msgspec

from streaming.broker.message import MAX_PRIORITY
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, StoredLetter
from streaming.broker.redrives.letters import is_expiration, stored_headers
from streaming.broker.redrives.version_keys import is_hash
from streaming.protocol.json_input import CommandFields
from topology.declarations import too_long

MAX_LETTERS: Final = 10_000
"""Letters in one command."""

ACTIONS: Final = ("redrive", "discard", "restore")
EXPIRATIONS: Final = ("drop", "keep", "restart")
X_DEATHS: Final = ("keep", "clear")

_LIMITS: Final = {
    "rate": (1, 1_000_000),
    "ceiling": (1, 1 << 53),
    "canary": (0, 1 << 31),
    "stop_after": (1, 1 << 31),
    "stop_percent": (1, 100),
    "cap": (1, 1 << 31),
}
_MAX_INT: Final = 1 << 62
_MAX_BYTES: Final = 1 << 31
_MAX_TIME_S: Final = 253_402_300_799
"""The last second of the year 9999."""

T = TypeVar("T")


def read_letters(fields: CommandFields) -> tuple[Letter, ...]:
    """Read the letters of a redrive command."""
    letters: tuple[Letter, ...] = _converted(fields, "letters", tuple[Letter, ...], ())
    if len(letters) > MAX_LETTERS:
        fields.report.problem(fields.at("letters"), f"has more than {MAX_LETTERS} letters")
    for index, letter in enumerate(letters):
        fault = letter_fault(letter)
        if fault:
            fields.report.problem(f"{fields.at('letters')}[{index}]", fault)
    return letters


def letter_fault(letter: Letter) -> str:
    """What is wrong with a letter; empty if nothing."""
    numbers = [letter.lane, letter.copy_id, letter.published_ms]
    names = [letter.queue]
    if letter.target is not None:
        names += [letter.target.queue or "", letter.target.exchange, *letter.target.routing_keys]
        if not letter.target.routing_keys:
            return "its target has no routing key"
    stored = letter.stored
    if stored is not None:
        if letter.target is None:
            return "a stored letter needs a target"
        numbers += [*stored.message, stored.priority, *(death[0] for death in stored.deaths)]
        fault = _stored_fault(stored)
        if fault:
            return fault
    if letter.edit is not None:
        if letter.target is None:
            return "an edited letter needs a target"
        fault = _edit_fault(letter.edit)
        if fault:
            return fault
    if any(not 0 <= number < _MAX_INT for number in numbers):
        return "a number is negative or too large"
    return next((fault for fault in map(too_long, names) if fault), "")


def _edit_fault(edit: Edit) -> str:
    if not is_hash(edit.original) or not is_hash(edit.version):
        return "an edit needs the SHA-256 of its content before and after"
    if edit.priority is not None and not 0 <= edit.priority <= MAX_PRIORITY:
        return f"priority must be from 0 to {MAX_PRIORITY}, not {edit.priority}"
    if edit.expiration and not is_expiration(edit.expiration):
        return "expiration: expected milliseconds up to ten years"
    return ""


def _stored_fault(stored: StoredLetter) -> str:
    """Say what the broker or the tables could not represent; empty if nothing."""
    if not 0 <= stored.size < _MAX_BYTES:
        return f"size must be from 0 to {_MAX_BYTES - 1}, not {stored.size}"
    for death in stored.deaths:
        if not 0 <= death[3] <= _MAX_TIME_S:
            return f"time of death must be from 0 to {_MAX_TIME_S}, not {death[3]}"
        if death[6] is not None and not is_expiration(death[6]):
            return "original expiration: expected milliseconds up to ten years"
    try:
        stored_headers(stored)
    except (ValueError, msgspec.DecodeError) as error:
        return f"headers: {error}"
    return ""


def read_redrive_options(fields: CommandFields) -> RedriveOptions:
    """Read the options of a redrive command."""
    if fields.value("options") is None:
        return RedriveOptions()
    options = _converted(fields, "options", RedriveOptions, RedriveOptions())
    fault = options_fault(options)
    if fault:
        fields.report.problem(fields.at("options"), fault)
    return options


def options_fault(options: RedriveOptions) -> str:
    """What is wrong with the options of a redrive; empty if nothing."""
    for name, words in (("action", ACTIONS), ("expiration", EXPIRATIONS), ("x_death", X_DEATHS)):
        if getattr(options, name) not in words:
            return f"{name} must be {', '.join(words[:-1])} or {words[-1]}"
    for name, (least, most) in _LIMITS.items():
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            return f"{name} must be from {least} to {most}, not {value}"
    return ""


def _converted(fields: CommandFields, name: str, kind: Any, default: T) -> T:
    value = fields.value(name)
    try:
        converted: T = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        what = "is missing" if value is None else str(error)
        fields.report.problem(fields.at(name), what)
        return default
    return converted
