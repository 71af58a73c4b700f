"""Checks of single values in argument and policy tables."""

from collections.abc import Callable, Mapping

import msgspec

from topology.values import AmqpValue, amqp_type

MAX_TTL_MS = 315_360_000_000
"""Ten years: the longest time that RabbitMQ accepts."""

MAX_PRIORITIES = 255


class ArgumentError(msgspec.Struct, frozen=True):
    """One unacceptable value.

    Attributes:
        reason: in RabbitMQ's reply, such as `{value_negative,-1}`.
        words: for people, such as `must not be negative, but is -1`.
    """

    reason: str
    words: str


Check = Callable[[AmqpValue], ArgumentError | None]


def integer(value: AmqpValue) -> ArgumentError | None:
    """Any integer, but not a boolean."""
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    kind = amqp_type(value)
    return ArgumentError(f'"expected integer, got {kind}"', f"expected an integer, got {kind}")


def at_least_zero(value: AmqpValue) -> ArgumentError | None:
    """An integer that is not negative."""
    error = integer(value)
    if error is None and isinstance(value, int) and value < 0:
        return ArgumentError(f"{{value_negative,{value}}}", f"must not be negative, but is {value}")
    return error


def at_least_one(value: AmqpValue) -> ArgumentError | None:
    """A positive integer."""
    if value == 0 and integer(value) is None:
        return ArgumentError("{value_zero,0}", "must not be zero")
    return at_least_zero(value)


def time_ms(value: AmqpValue) -> ArgumentError | None:
    """Milliseconds, zero to ten years."""
    error = at_least_zero(value)
    if error is None and isinstance(value, int) and value > MAX_TTL_MS:
        return ArgumentError(
            f"{{value_too_large,{value}}}",
            f"must be at most {MAX_TTL_MS} ms (ten years), but is {value}",
        )
    return error


def lease_ms(value: AmqpValue) -> ArgumentError | None:
    """Milliseconds, one to ten years."""
    return at_least_one(value) or time_ms(value)


def priorities(value: AmqpValue) -> ArgumentError | None:
    """A number of priorities, zero to 255."""
    error = at_least_zero(value)
    if error is None and isinstance(value, int) and value > MAX_PRIORITIES:
        return ArgumentError(
            f"{{max_value_exceeded,{value}}}",
            f"must be at most {MAX_PRIORITIES}, but is {value}",
        )
    return error


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
        given = f"expected one of {', '.join(choices)}, got {value!r}"
        return ArgumentError(reason.replace("VALUE", value), given)

    return check


def errors_in(
    table: Mapping[str, AmqpValue], checks: Mapping[str, Check]
) -> list[tuple[str, ArgumentError]]:
    """Every error in a table, in the order of the checks; members without a check have none."""
    found = ((key, check(table[key])) for key, check in checks.items() if key in table)
    return [(key, error) for key, error in found if error is not None]


def _unacceptable(value: AmqpValue, wanted: str) -> ArgumentError:
    kind = amqp_type(value)
    return ArgumentError(f"{{unacceptable_type,{kind}}}", f"expected {wanted}, got {kind}")
