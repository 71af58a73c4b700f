"""Secrets stay where they are: the configuration holds where to find one, never its text.

`{env = "NAME"}` is an environment variable, `{file = "path"}` a file. The text is fetched at the
moment a client is made (`reveal`), and what is fetched does not show itself in a `repr`, so that a
dictionary of client properties can be logged by mistake without harm.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from streaming.config.errors import InvalidConfigError, Place
from streaming.config.toml import kind_of, write_string

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
"""Properties that say where a secret is, or how it is got, and hold none."""


class Secret(msgspec.Struct, frozen=True):
    """Where a secret is found.

    Attributes:
        source: `env` or `file`.
        name: the environment variable, or the file's path.
    """

    source: Literal["env", "file"]
    name: str

    def write(self) -> str:
        """The form it has in `dlx.toml`."""
        return f"{{ {self.source} = {write_string(self.name)} }}"


class SecretText(str):
    """A secret's text. Clients take it as the string it is; its `repr` is masked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{_MASK}'"


def mask_secrets(words: str, values: Iterable[object]) -> str:
    """Words of a library, with a mask where they repeat the text of a secret among the values."""
    for value in values:
        if isinstance(value, SecretText) and value:
            words = words.replace(str(value), _MASK)
    return words


Property = str | Secret
"""A value of a pass-through table, such as Kafka's security settings."""


def is_secret_name(name: str) -> bool:
    """Whether a property of this name holds a secret, so that its text must not be in a file.

    `ssl.key.password` does; `sasl.oauthbearer.token.endpoint.url` only speaks of one.
    """
    return bool(_SECRET_WORD.search(name)) and not _NAMES_ONE_ONLY.search(name)


def looks_like_secret(raw: Mapping[str, object]) -> bool:
    """Whether a table is the reference to a secret rather than a table of further properties."""
    return "env" in raw or "file" in raw


def read_secret(raw: Mapping[str, object], place: Place) -> Secret | None:
    """Read `{env = "NAME"}` or `{file = "path"}`; None if it was reported as wrong."""
    if len(raw) != 1:
        place.report('expected {env = "NAME"} or {file = "path"} and nothing beside it')
        return None
    source: Literal["env", "file"] = "env" if "env" in raw else "file"
    name = raw[source]
    if not isinstance(name, str):
        place.key(source).report(f"expected a string, got {kind_of(name)}")
        return None
    secret = Secret(source, name)
    fault = check_secret(secret)
    if fault is not None:
        place.key(source).report(fault)
        return None
    return secret


def check_secret(secret: Secret) -> str | None:
    """What is wrong with a reference, or None."""
    if secret.source == "file" and not secret.name:
        return "is empty: name the file that holds the secret"
    if secret.source == "env" and not _ENVIRONMENT_NAME.fullmatch(secret.name):
        return "is not the name of an environment variable"
    return None


def reveal(
    properties: Mapping[str, Property], where: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Fetch the secrets among some properties.

    Args:
        properties: property name -> text or secret.
        where: path of the table in `dlx.toml`, for problems.
        environ: the process environment.

    Returns:
        Property name -> text; the texts of secrets have a masked `repr`.

    Raises:
        InvalidConfigError: one problem for each secret that is not there or empty.
    """
    revealed: dict[str, str] = {}
    place = Place(where)
    for name, value in properties.items():
        if isinstance(value, str):
            revealed[name] = value
            continue
        found = _fetch(value, environ, place.key(name))
        if found is not None:
            revealed[name] = found
    if place.problems:
        raise InvalidConfigError(place.problems)
    return revealed


def _fetch(secret: Secret, environ: Mapping[str, str], place: Place) -> SecretText | None:
    """The secret's text; None if it was reported as missing."""
    if secret.source == "env":
        if secret.name not in environ:
            place.report(f"environment variable {secret.name} is not set")
            return None
        text = environ[secret.name]
    else:
        try:
            text = Path(secret.name).read_text("utf-8").rstrip("\r\n")  # editors end the last line
        except OSError as error:
            place.report(f"cannot read {secret.name}: {error.strerror}")
            return None
        except UnicodeDecodeError:
            place.report(f"{secret.name} is not UTF-8 text")
            return None
    if not text:
        place.report(f"{secret.name} is empty")
        return None
    return SecretText(text)
