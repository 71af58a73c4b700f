"""From text to `JobConfig`: every problem of the file at once, each with its path."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streaming.config.errors import InvalidConfigError, Place, overlap
from streaming.config.librdkafka import refuse_unknown_properties
from streaming.config.model import JobConfig
from streaming.config.paths import rooted
from streaming.config.rules import Parts, clashes
from streaming.config.sections import (
    NamedTables,
    Section,
    Table,
    TableList,
    read_values,
    settings_of,
)
from topology.errors import Problem


def load_config(path: Path) -> JobConfig:
    """Read the configuration that a job runs with.

    Relative paths in it start at the file's folder, so that the same file means the same job
    wherever the command is given.

    Raises:
        InvalidConfigError: with every problem, or that the file cannot be read.
    """
    config = rooted(read_config(path), path.absolute().parent)
    refuse_unknown_properties(config.kafka)
    return config


def read_config(path: Path) -> JobConfig:
    """Read a configuration as it is written, paths included.

    Raises:
        InvalidConfigError: with every problem, or that the file cannot be read.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        fault = "no such file; `dlx config show` prints one to start from"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        fault = "is not UTF-8 text"
    else:
        return parse_config(text, name=str(path))
    raise InvalidConfigError((Problem(where=str(path), what=fault),))


def parse_config(text: str, *, name: str = "dlx.toml") -> JobConfig:
    """Read a configuration from its text.

    Args:
        text: TOML.
        name: what to call the text where it is no TOML at all.

    Raises:
        InvalidConfigError: with every problem, in the order of the settings.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        what = "is not valid TOML: nested too deeply"
    except ValueError as error:
        what = f"is not valid TOML: {error}"
    else:
        return config_from(document)
    raise InvalidConfigError((Problem(where=name, what=what),))


def config_from(document: Mapping[str, object]) -> JobConfig:
    """Read a configuration from parsed TOML.

    Raises:
        InvalidConfigError: with every problem, in the order of the settings.
    """
    place = Place(elsewhere=_home_of_each_key())
    values: dict[str, Any] = read_values(JobConfig, document, place)
    if not place.problems:
        return JobConfig(**values)
    defaults = JobConfig()
    parts = Parts(**{part: values.get(part, getattr(defaults, part)) for part in Parts._fields})
    misread = tuple(problem.where for problem in place.problems)
    place.problems += [
        Problem(where=clash.paths[0], what=clash.what)
        for clash in clashes(parts)
        if not any(overlap(path, where) for path in clash.paths for where in misread)
    ]
    raise InvalidConfigError(place.problems)


def _home_of_each_key() -> dict[str, str]:
    """Setting name -> header of the only table that has it."""
    homes: dict[str, list[str]] = {}
    for table, setting in settings_of(JobConfig).items():
        assert isinstance(setting.kind, Table | NamedTables | TableList)
        section_class: type[Section] = setting.kind.section_class
        for name in settings_of(section_class):
            homes.setdefault(name, []).append(setting.kind.header(table))
    return {name: headers[0] for name, headers in homes.items() if len(headers) == 1}
