"""A configuration from a file or from text, and its relative paths made absolute."""

import tomllib
from pathlib import Path
from typing import TypeVar

import attrs

from streaming.config.clients import refuse_unknown_properties
from streaming.config.model import JobConfig
from streaming.config.secrets import Property, Secret
from streaming.config.types import InvalidConfigError, Section, is_url, settings_of
from streaming.config.validation import config_from
from topology.errors import Problem

S = TypeVar("S", bound=Section)


def load_config(path: Path) -> JobConfig:
    """Read the configuration that a job runs with.

    Relative paths in it start at the file's folder, so that a file means the same job wherever the
    command runs.

    Raises:
        InvalidConfigError: every problem, or why the file cannot be read.
    """
    config = rooted(read_config(path), path.absolute().parent)
    refuse_unknown_properties(config.kafka)
    return config


def read_config(path: Path) -> JobConfig:
    """Read a configuration without changing its relative paths.

    Raises:
        InvalidConfigError: every problem, or why the file cannot be read.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        what = "no such file; `dlx config init` writes one to start from"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        what = "is not UTF-8 text"
    else:
        return parse_config(text, name=str(path))
    raise InvalidConfigError((Problem(str(path), what),))


def parse_config(text: str, *, name: str = "dlx.toml") -> JobConfig:
    """Read a configuration from its text.

    Args:
        name: what to call the text if it is not TOML at all.

    Raises:
        InvalidConfigError: every problem, in the order of the settings.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        what = "is not valid TOML: nested too deeply"
    except ValueError as error:
        what = f"is not valid TOML: {error}"
    else:
        return config_from(document)
    raise InvalidConfigError((Problem(name, what),))


def rooted(section: S, folder: Path) -> S:
    """The same configuration with every path absolute; `~` is the home folder.

    Paths are the settings of kinds `local` and `storage` (except URLs), the files of secrets, and
    properties that end in `.location`, such as `ssl.ca.location`.
    """
    changed: dict[str, object] = {}
    for name, setting in settings_of(type(section)).items():
        value = getattr(section, name)
        match setting.kind.form:
            case _ if value is None:
                pass
            case "path" | "storage" as form:
                is_path = form == "path" or not is_url(value)
                changed[name] = _absolute(value, folder) if is_path else value
            case "properties":
                changed[name] = {
                    key: _rooted_property(key, member, folder) for key, member in value.items()
                }
            case "table":
                changed[name] = rooted(value, folder)
            case "named tables":
                changed[name] = {key: rooted(member, folder) for key, member in value.items()}
            case "list of tables":
                changed[name] = tuple(rooted(member, folder) for member in value)
            case _:
                pass
    return attrs.evolve(section, **changed)


def _rooted_property(name: str, value: Property, folder: Path) -> Property:
    if isinstance(value, Secret):
        is_file = value.source == "file"
        return Secret("file", _absolute(value.name, folder)) if is_file else value
    return _absolute(value, folder) if name.endswith(".location") else value


def _absolute(path: str, folder: Path) -> str:
    return str(folder / Path(path).expanduser())
