"""Pass-through tables: properties of other programs, such as Kafka's `sasl.*` and `ssl.*`.

    [kafka.security]
    security.protocol = "SASL_SSL"
    sasl.password = { env = "KAFKA_PASSWORD" }

TOML reads dotted keys as nested tables. They are joined again here, so that `sasl.password`,
`"sasl.password"` and a table `[kafka.security.sasl]` mean the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from streaming.config.secrets import (
    Property,
    Secret,
    is_secret_name,
    looks_like_secret,
    read_secret,
)
from streaming.config.types import InvalidConfigError, Kind, invalid, join_key, kind_of, refuse
from topology.errors import Problem

_NO_LITERAL: Final = (
    'must not be written here: put it in the environment, {env = "NAME"}, or a file, '
    '{file = "path"}'
)


def properties(prefixes: tuple[str, ...] = (), refused: Mapping[str, str] | None = None) -> Kind:
    """A pass-through table: property name -> text or secret.

    Args:
        prefixes: how names must start; none if any name is valid.
        refused: start of a name -> why it is not valid here, and where it belongs.
    """

    def name_fault(name: str) -> str | None:
        if not name:
            return "has no name"
        for start, reason in (refused or {}).items():
            if name.startswith(start):
                return reason
        if prefixes and not name.startswith(prefixes):
            return f"does not start with {' or '.join(prefixes)}"
        return None

    def read(raw: object) -> dict[str, Property]:
        if not isinstance(raw, dict):
            raise invalid(f"expected a table, got {kind_of(raw)}")
        found: dict[str, Property] = {}
        problems: list[Problem] = []
        for name, value in _flattened(raw):
            what = "is given twice" if name in found else name_fault(name)
            try:
                if what is not None:
                    raise invalid(what)
                found[name] = _read_property(name, value)
            except InvalidConfigError as error:
                problems += error.within(join_key("", name))
        refuse(problems)
        return found

    bounds = f"names that start with {' or '.join(prefixes)}" if prefixes else ""
    return Kind("a table", read, bounds, "properties")


def _read_property(name: str, raw: Any) -> Property:
    if isinstance(raw, dict | Secret):
        return read_secret(raw)
    if not isinstance(raw, str | bool | int | float):
        raise invalid(f"expected a string, number or boolean, got {kind_of(raw)}")
    if is_secret_name(name):
        raise invalid(_NO_LITERAL)
    return str(raw).lower() if isinstance(raw, bool) else str(raw)  # clients take strings


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        full_name = f"{prefix}{name}"
        if isinstance(value, dict) and not looks_like_secret(value):
            yield from _flattened(value, f"{full_name}.")
        else:
            yield full_name, value
