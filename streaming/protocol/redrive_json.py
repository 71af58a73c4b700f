"""Reading and writing the letters and options of a redrive, as commands and sealed plans hold them.

[lane, copy_id, queue, [target queue or null, exchange, [keys]] or null, published_ms, stored]
"""

from typing import Any, Final, TypeVar

import msgspec

from streaming.broker.commands import Letter, RedriveOptions
from streaming.broker.redrives.letters import stored_headers
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
        numbers += [*stored.message, stored.size, stored.priority]
        numbers += [number for death in stored.deaths for number in (death[0], death[3])]
        try:
            stored_headers(stored)
        except (ValueError, msgspec.DecodeError) as error:
            return f"headers: {error}"
    if any(not 0 <= number < _MAX_INT for number in numbers):
        return "a number is negative or too large"
    return next((fault for fault in map(too_long, names) if fault), "")


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
