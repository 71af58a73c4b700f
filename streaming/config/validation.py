"""From parsed TOML to `JobConfig`: every problem at once, each with its path in the file."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import attrs

from streaming.config import types
from streaming.config.model import JobConfig
from streaming.config.rules import Parts, conflicts
from topology.errors import Problem
from topology.suggestions import did_you_mean

SectionReader = Callable[[type[types.Section], Any], types.Section | None]
"""Reads a table of the file as a section."""


def config_from(document: Mapping[str, object]) -> JobConfig:
    """Read a configuration from parsed TOML.

    Raises:
        InvalidConfigError: every problem, in the order of the settings.
    """
    try:
        config = _section(JobConfig, document)
    except types.InvalidConfigError as error:
        problems = list(error.problems)
    else:
        assert isinstance(config, JobConfig)
        return config
    unreadable = [problem.where for problem in problems]
    problems += [
        Problem(conflict.paths[0], conflict.what)
        for conflict in conflicts(_readable_parts(document))
        if not any(_overlap(path, where) for path in conflict.paths for where in unreadable)
    ]
    raise types.InvalidConfigError(tuple(dict.fromkeys(problems)))


def _section(section_class: type[types.Section], raw: Any) -> types.Section:
    """Read a table.

    Raises:
        InvalidConfigError: every problem in it; unknown keys come first.
    """
    types.table(section_class).read(raw)
    known = types.settings_of(section_class)
    problems = [
        Problem(types.join_key("", name), f"unknown key{_hint(name, section_class)}")
        for name in sorted(raw.keys() - known.keys())
    ]
    values = {}
    for field in attrs.fields(section_class):
        if field.name in raw:
            try:
                values[field.name] = _value(known[field.name].kind, raw[field.name], _section)
            except types.InvalidConfigError as error:
                problems += error.within(field.name)
        elif field.default is attrs.NOTHING:
            problems.append(Problem(field.name, "is missing"))
    types.refuse(problems)
    return section_class(**values)


def _value(kind: types.Kind, raw: Any, section: SectionReader) -> Any:
    """Read a setting, with the tables in it.

    Raises:
        InvalidConfigError: every problem in it.
    """
    value = kind.read(raw)
    if kind.section_class is None:
        return value
    match kind.form:
        case "named tables":
            steps = ((name, types.join_key("", name), each) for name, each in value.items())
            return dict(_members(kind.section_class, steps, section))
        case "list of tables":
            steps = ((at, types.join_index("", at), each) for at, each in enumerate(value))
            return tuple(each for _, each in _members(kind.section_class, steps, section))
        case _:
            return section(kind.section_class, value)


def _members(
    section_class: type[types.Section],
    steps: Iterable[tuple[Any, str, Any]],
    section: SectionReader,
) -> list[tuple[Any, types.Section | None]]:
    """Read the tables of an array or of a table of tables: key, path and content of each."""
    found, problems = [], []
    for key, path, raw in steps:
        try:
            found.append((key, section(section_class, raw)))
        except types.InvalidConfigError as error:
            problems += error.within(path)
    types.refuse(problems)
    return found


def _readable_parts(document: Mapping[str, object]) -> Parts:
    """The tables that rules depend on, with defaults and stand-ins for unreadable values."""
    fields = attrs.fields_dict(JobConfig)
    parts: dict[str, Any] = {
        name: _lenient_value(fields[name], document.get(name)) for name in Parts._fields
    }
    return Parts(**parts)


def _lenient_section(section_class: type[types.Section], raw: Any) -> types.Section | None:
    """Read what can be read of a table; None if two of its values contradict each other."""
    readable = raw if isinstance(raw, dict) else {}
    try:
        return section_class(
            **{
                field.name: _lenient_value(field, readable.get(field.name))
                for field in attrs.fields(section_class)
            }
        )
    except types.InvalidConfigError:
        return None


def _lenient_value(field: "attrs.Attribute[Any]", raw: Any) -> Any:
    """Read a setting; its default, or what stands in for it, if it is missing or unreadable."""
    setting: types.Setting = field.metadata["setting"]
    if raw is not None:
        try:
            value = _value(setting.kind, raw, _lenient_section)
        except types.InvalidConfigError:
            value = None
        if value is not None:
            return value
    default = types.default_of(field)
    return setting.stand_in if default is attrs.NOTHING else default


def _hint(name: str, section_class: type[types.Section]) -> str:
    """The table that a key belongs in, or the key that was probably meant."""
    home = _home_of_each_key().get(name)
    return (
        f" (it belongs in {home})" if home else did_you_mean(name, types.settings_of(section_class))
    )


@cache
def _home_of_each_key() -> dict[str, str]:
    """Setting name -> header of the only table that has it."""
    homes: dict[str, list[str]] = {}
    for part, each in types.settings_of(JobConfig).items():
        assert each.kind.section_class is not None
        for name in types.settings_of(each.kind.section_class):
            homes.setdefault(name, []).append(each.kind.header(part))
    return {name: headers[0] for name, headers in homes.items() if len(headers) == 1}


def _overlap(one: str, other: str) -> bool:
    """Whether two paths name the same setting, or one lies inside the other."""
    return any(
        outer in {path, ""} or path.startswith((f"{outer}.", f"{outer}["))
        for path, outer in ((one, other), (other, one))
    )
