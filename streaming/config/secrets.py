"""Pass-through tables: properties of other programs, and where to find the secrets among them.

    [kafka.security]
    security.protocol = "SASL_SSL"
    sasl.password = { env = "KAFKA_PASSWORD" }

`{env = "NAME"}` is an environment variable, `{file = "path"}` a file. The text is fetched when a
client is created (`reveal`). Its `repr` is masked, so that logging a dictionary of client
properties by mistake does no harm.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from streaming.config.types import InvalidConfigError, Kind, invalid, join_key, kind_of, refuse
from topology.errors import Problem

_MASK: Final = "******"
_ENVIRONMENT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_WORD: Final = re.compile(
    r"password|passwd|passphrase|secret|token|credential|jaas|signature|keystore\.key|key\.pem|\.sas\."
    r"|(private|access|account|api|sas)[._-]?key",
    re.IGNORECASE,
)
_NAMES_ONE_ONLY: Final = re.compile(
    r"([._-](url|uri|location|file|path|type|algorithm|id|name|class|provider|ms|seconds|endpoint"
    r"|enabled|region|version)|application_credentials|skip_signature)$",
    re.IGNORECASE,
)
"""Properties that say where a secret is or how to get it, and do not contain it."""

_NO_LITERAL: Final = (
    'must not be written here: put it in the environment, {env = "NAME"}, or a file, '
    '{file = "path"}'
)


@attrs.frozen
class Secret:
    """Where to find a secret: the name of an environment variable, or the path of a file."""

    source: Literal["env", "file"]
    name: str

    def toml(self) -> dict[str, str]:
        """The inline table that it is in `dlx.toml`."""
        return {self.source: self.name}


class SecretText(str):
    """The text of a secret: a string for clients, but with a masked `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{_MASK}'"


Property = str | Secret
"""A value in a pass-through table, such as Kafka's security settings."""


def mask_secrets(words: str, values: Iterable[object]) -> str:
    """A library's message, with the text of each secret among the values masked."""
    for value in values:
        if isinstance(value, SecretText) and value:
            words = words.replace(str(value), _MASK)
    return words


def is_secret_name(name: str) -> bool:
    """Whether a property with this name holds a secret, so that a file must not contain it.

    `ssl.key.password` does; `sasl.oauthbearer.token.endpoint.url` only points to one.
    """
    return bool(_SECRET_WORD.search(name)) and not _NAMES_ONE_ONLY.search(name)


def read_secret(raw: Secret | Mapping[str, Any]) -> Secret:
    """Read `{env = "NAME"}` or `{file = "path"}`, or check a secret that code made.

    Raises:
        InvalidConfigError: it is malformed; paths start at the table.
    """
    members = raw.toml() if isinstance(raw, Secret) else raw
    if len(members) != 1:
        raise invalid('expected only {env = "NAME"} or {file = "path"}')
    [(source, name)] = members.items()
    if not isinstance(name, str):
        raise invalid(f"expected a string, got {kind_of(name)}", source)
    if source == "env" and not _ENVIRONMENT_NAME.fullmatch(name):
        raise invalid("is not the name of an environment variable", source)
    if not name:
        raise invalid("is empty: name the file that holds the secret", source)
    return Secret("env" if source == "env" else "file", name)


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
    """Join dotted keys, which TOML reads as nested tables: `[kafka.security.sasl]` works too."""
    for name, value in table.items():
        full_name = f"{prefix}{name}"
        if isinstance(value, dict) and not value.keys() & {"env", "file"}:
            yield from _flattened(value, f"{full_name}.")
        else:
            yield full_name, value


def reveal(
    properties: Mapping[str, Property], where: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Fetch the secrets among some properties; their texts have a masked `repr`.

    Args:
        where: path of the table in `dlx.toml`, for problems.

    Raises:
        InvalidConfigError: one problem for each secret that is missing or empty.
    """
    revealed: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in properties.items():
        if isinstance(value, str):
            revealed[name] = value
            continue
        try:
            revealed[name] = _fetch(value, environ)
        except ValueError as error:
            problems.append(Problem(join_key(where, name), str(error)))
    refuse(problems)
    return revealed


def _fetch(secret: Secret, environ: Mapping[str, str]) -> SecretText:
    """The secret's text; a `ValueError` says why there is none."""
    if secret.source == "env":
        if secret.name not in environ:
            raise ValueError(f"environment variable {secret.name} is not set")
        text = environ[secret.name]
    else:
        try:
            text = Path(secret.name).read_text("utf-8").rstrip("\r\n")  # editors end the last line
        except OSError as error:
            raise ValueError(f"cannot read {secret.name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{secret.name} is not UTF-8 text") from None
    if not text:
        raise ValueError(f"{secret.name} is empty")
    return SecretText(text)
