"""Secrets stay where they are: the configuration says where to find one, and never holds its text.

`{env = "NAME"}` is an environment variable, `{file = "path"}` a file. The text is fetched when a
client is created (`reveal`). Its `repr` is masked, so that logging a dictionary of client
properties by mistake does no harm.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from streaming.config.types import invalid, join_key, kind_of, refuse
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
    r"|enabled|region|version)|application_credentials)$",
    re.IGNORECASE,
)
"""Properties that say where a secret is or how to get it, and do not contain it."""


@attrs.frozen
class Secret:
    """Where to find a secret.

    Attributes:
        source: `env` or `file`.
        name: the environment variable, or the file's path.
    """

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


def looks_like_secret(raw: Mapping[str, object]) -> bool:
    """Whether a table refers to a secret rather than holds further properties."""
    return "env" in raw or "file" in raw


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


def reveal(
    properties: Mapping[str, Property], where: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Fetch the secrets among some properties.

    Args:
        properties: property name -> text or secret.
        where: path of the table in `dlx.toml`, for problems.
        environ: the process environment.

    Returns:
        Property name -> text; the text of a secret has a masked `repr`.

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
    """The secret's text.

    Raises:
        ValueError: why there is none.
    """
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
