"""Checks of single values in argument and policy tables."""

from collections.abc import Callable, Mapping

import msgspec

from topology.suggestions import did_you_mean
from topology.values import AmqpValue, amqp_type, type_in_words


class ArgumentError(msgspec.Struct, frozen=True):
    """One unacceptable value: the reason in RabbitMQ's reply, and the words for people."""

    reason: str
    words: str


Check = Callable[[AmqpValue], ArgumentError | None]


def integer(
    least: int | None = None,
    most: int | None = None,
    too_large: str = "value_too_large",
    unit: str = "",
) -> Check:
    """An integer, but not a boolean, from `least` (0 or 1) to `most`.

    Args:
        least, most: the bounds; None for none.
        too_large: RabbitMQ's name for the error of a larger value.
        unit: follows the largest value in the message.
    """

    def check(value: AmqpValue) -> ArgumentError | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return ArgumentError(
                f'"expected integer, got {amqp_type(value)}"',
                f"expected an integer, got {type_in_words(value)}",
            )
        if least is not None and value < 0:
            words = f"must not be negative, but is {value}"
            return ArgumentError(f"{{value_negative,{value}}}", words)
        if least and value < least:
            return ArgumentError("{value_zero,0}", "must not be zero")
        if most is not None and value > most:
            words = f"must be at most {most}{unit}, but is {value}"
            return ArgumentError(f"{{{too_large},{value}}}", words)
        return None

    return check


def flag(value: AmqpValue) -> ArgumentError | None:
    """True or false."""
    return None if isinstance(value, bool) else _unacceptable(value, "a boolean")


def text(value: AmqpValue) -> ArgumentError | None:
    """A string."""
    return None if isinstance(value, str) else _unacceptable(value, "a string")


def one_of(choices: tuple[str, ...], reason: str) -> Check:
    """One of these strings; `reason` is RabbitMQ's reply to any other string."""

    def check(value: AmqpValue) -> ArgumentError | None:
        if not isinstance(value, str):
            return _unacceptable(value, "a string")
        if value in choices:
            return None
        hint = did_you_mean(value, choices)
        given = f"expected one of {', '.join(choices)}, got {value!r}{hint}"
        return ArgumentError(reason.replace("VALUE", value), given)

    return check


def errors_in(
    table: Mapping[str, AmqpValue], checks: Mapping[str, Check]
) -> list[tuple[str, ArgumentError]]:
    """Every error in a table, in the order of the checks; members without a check have none."""
    found = ((key, check(table[key])) for key, check in checks.items() if key in table)
    return [(key, error) for key, error in found if error is not None]


def _unacceptable(value: AmqpValue, wanted: str) -> ArgumentError:
    words = f"expected {wanted}, got {type_in_words(value)}"
    return ArgumentError(f"{{unacceptable_type,{amqp_type(value)}}}", words)
