"""What can be wrong with a single value of an argument or policy table."""

from collections.abc import Callable, Mapping

import msgspec

from topology.values import AmqpValue, amqp_type

LONGEST_TTL_MS = 315_360_000_000
"""Ten years: the longest time that RabbitMQ accepts anywhere."""

MOST_PRIORITIES = 255


class Fault(msgspec.Struct, frozen=True):
    """One unacceptable value.

    Attributes:
        reason: RabbitMQ's, as it prints it: `{value_negative,-1}`.
        words: the same for people: `must not be negative, but is -1`.
    """

    reason: str
    words: str


Check = Callable[[AmqpValue], Fault | None]


def integer(value: AmqpValue) -> Fault | None:
    """Any integer; a boolean is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    kind = amqp_type(value)
    return Fault(f'"expected integer, got {kind}"', f"expected an integer, got {kind}")


def at_least_zero(value: AmqpValue) -> Fault | None:
    """An integer that is not negative."""
    fault = integer(value)
    if fault is None and isinstance(value, int) and value < 0:
        return Fault(f"{{value_negative,{value}}}", f"must not be negative, but is {value}")
    return fault


def at_least_one(value: AmqpValue) -> Fault | None:
    """A positive integer."""
    if value == 0 and integer(value) is None:
        return Fault("{value_zero,0}", "must not be zero")
    return at_least_zero(value)


def time_ms(value: AmqpValue) -> Fault | None:
    """Milliseconds, zero to ten years."""
    fault = at_least_zero(value)
    if fault is None and isinstance(value, int) and value > LONGEST_TTL_MS:
        return Fault(
            f"{{value_too_large,{value}}}",
            f"must be at most {LONGEST_TTL_MS} ms (ten years), but is {value}",
        )
    return fault


def lease_ms(value: AmqpValue) -> Fault | None:
    """Milliseconds, one to ten years."""
    return at_least_one(value) or time_ms(value)


def priorities(value: AmqpValue) -> Fault | None:
    """A number of priorities, zero to 255."""
    fault = at_least_zero(value)
    if fault is None and isinstance(value, int) and value > MOST_PRIORITIES:
        return Fault(
            f"{{max_value_exceeded,{value}}}",
            f"must be at most {MOST_PRIORITIES}, but is {value}",
        )
    return fault


def flag(value: AmqpValue) -> Fault | None:
    """True or false."""
    return None if isinstance(value, bool) else _unacceptable(value, "a boolean")


def text(value: AmqpValue) -> Fault | None:
    """A string."""
    return None if isinstance(value, str) else _unacceptable(value, "a string")


def one_of(choices: tuple[str, ...], reason: str) -> Check:
    """One of some strings; `reason` is RabbitMQ's word for any other string."""

    def check(value: AmqpValue) -> Fault | None:
        if not isinstance(value, str):
            return _unacceptable(value, "a string")
        if value in choices:
            return None
        given = f"expected one of {', '.join(choices)}, got {value!r}"
        return Fault(reason.replace("VALUE", value), given)

    return check


def faults_of(
    table: Mapping[str, AmqpValue], checks: Mapping[str, Check]
) -> list[tuple[str, Fault]]:
    """Every fault in a table, in the order of the checks; members without a check have none."""
    found = ((key, check(table[key])) for key, check in checks.items() if key in table)
    return [(key, fault) for key, fault in found if fault is not None]


def _unacceptable(value: AmqpValue, wanted: str) -> Fault:
    kind = amqp_type(value)
    return Fault(f"{{unacceptable_type,{kind}}}", f"expected {wanted}, got {kind}")
