"""Pass-through tables: properties of other programs, such as Kafka's `sasl.*` and `ssl.*`.

    [kafka.security]
    security.protocol = "SASL_SSL"
    sasl.password = { env = "KAFKA_PASSWORD" }

TOML reads dotted keys as tables in tables; they are joined again here, so that
`sasl.password`, `"sasl.password"` and a table `[kafka.security.sasl]` mean the same.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from streaming.config.errors import Place
from streaming.config.secrets import (
    Property,
    Secret,
    check_secret,
    is_secret_name,
    looks_like_secret,
    read_secret,
)
from streaming.config.sections import read_table
from streaming.config.toml import kind_of, write_string

_NO_LITERAL: Final = (
    'must not be written here: put it in the environment, {env = "NAME"}, or a file, '
    '{file = "path"}'
)


class Properties:
    """The kind of a pass-through table: property name -> text or secret."""

    def __init__(self, name_fault: Callable[[str], str | None]) -> None:
        """`name_fault` says why a property is not taken here, or None."""
        self.name_fault = name_fault

    def read(self, raw: object, place: Place) -> dict[str, Property] | None:
        """Read the table, nested ones joined by dots."""
        table = read_table(raw, place)
        if table is None:
            return None
        properties: dict[str, Property] = {}
        for name, value in _flattened(table):
            if name in properties:
                place.key(name).report("is given twice")
                continue
            read = self._read_one(name, value, place.key(name))
            if read is not None:
                properties[name] = read
        return properties

    def check(self, value: object, place: Place) -> None:
        """Hold properties put together by code to the same rules."""
        assert isinstance(value, dict)
        for name, member in value.items():
            self._check_one(name, member, place.key(name))

    def _read_one(self, name: str, raw: object, place: Place) -> Property | None:
        value: Property | None
        if isinstance(raw, dict):
            value = read_secret(raw, place)
            if value is None:
                return None
        elif isinstance(raw, str | bool | int | float):
            value = _as_text(raw)
        else:
            place.report(f"expected a string, number or boolean, got {kind_of(raw)}")
            return None
        return value if self._check_one(name, value, place) else None

    def _check_one(self, name: str, value: Property, place: Place) -> bool:
        fault = self.name_fault(name)
        if fault is None and isinstance(value, Secret):
            fault = check_secret(value)
        elif fault is None and is_secret_name(name):
            fault = _NO_LITERAL
        if fault is not None:
            place.report(fault)
        return fault is None


def _as_text(raw: str | float) -> str:
    """Clients' properties are strings: true is `true`."""
    return str(raw).lower() if isinstance(raw, bool) else str(raw)


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        full_name = f"{prefix}{name}"
        if isinstance(value, dict) and not looks_like_secret(value):
            yield from _flattened(value, f"{full_name}.")
        else:
            yield full_name, value


def name_rule(
    prefixes: tuple[str, ...] = ("",), hints: Mapping[str, str] | None = None
) -> Callable[[str], str | None]:
    """Which property names a table takes.

    Args:
        prefixes: how names must start.
        hints: start of a name -> why it is not taken all the same, and where it belongs.
    """

    def fault(name: str) -> str | None:
        if not name:
            return "has no name"
        for start, hint in (hints or {}).items():
            if name.startswith(start):
                return hint
        if name.startswith(prefixes):
            return None
        return f"does not start with {' or '.join(prefixes)}"

    return fault


def write_property(value: Property) -> str:
    """A property's value as TOML; of a secret, where to find it."""
    return value.write() if isinstance(value, Secret) else write_string(value)
