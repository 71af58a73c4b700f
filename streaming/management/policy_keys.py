"""Policy keys without an effect here, as RabbitMQ 4.0 takes or refuses them.

The broker takes all of them, so that the definitions of an older RabbitMQ load. Who sets a policy
over HTTP is told what RabbitMQ 4.0 would say.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from streaming.management.errors import not_valid
from topology.declarations import Policy
from topology.erlang_terms import erlang_term
from topology.validation.arguments import INERT_POLICY_KEYS

_MAX_SEGMENT: Final = 3_000_000_000
_AGE: Final = re.compile(r"0*[1-9][0-9]*[YMDhms]")


def _whole(least: int, most: int | None = None) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and value >= least and (most is None or value <= most)

    return check


def _one_of(*choices: Any) -> Callable[[Any], bool]:
    return lambda value: value in choices and not isinstance(value, bool)


_ANY_OF: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "initial-cluster-size": (_whole(0), "cluster size"),
    "max-age": (lambda value: isinstance(value, str) and bool(_AGE.fullmatch(value)), "max age"),
    "max-in-memory-bytes": (_whole(0), "maximum memory in bytes"),
    "max-in-memory-length": (_whole(0), "maximum memory in bytes"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "queue leader locator value",
    ),
    "queue-master-locator": (_one_of("min-masters", "client-local", "random"), "master locator"),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_one_of(1, 2), "queue-version value"),
    "stream-filter-size-bytes": (_whole(16, 255), "filter size. Valid range is 16-255"),
    "stream-max-segment-size-bytes": (_whole(0, _MAX_SEGMENT), "segment size"),
    "target-group-size": (_whole(1), "qq target count value"),
}
"""The keys that RabbitMQ 4.0 knows without plugins: their check, and its name for their values."""

_OF_OPERATORS: Final = frozenset(
    {
        "max-in-memory-bytes",
        "max-in-memory-length",
        "queue-master-locator",
        "queue-version",
        "target-group-size",
    }
)


def check_inert_keys(policy: Policy, *, operator: bool) -> None:
    """400 if RabbitMQ 4.0 refuses a key without an effect here, or its value."""
    known = _OF_OPERATORS if operator else _ANY_OF.keys()
    given = {
        key: policy.definition[key] for key in sorted(INERT_POLICY_KEYS & policy.definition.keys())
    }
    unknown = [
        f'{{<<"{key}">>,{erlang_term(value)}}}' for key, value in given.items() if key not in known
    ]
    if unknown:
        raise not_valid(f"[{','.join(unknown)}] are not recognised policy settings")
    for key, value in given.items():
        check, name = _ANY_OF[key]
        if not check(value):
            raise not_valid(f"{erlang_term(value)} is not a valid {name}")
