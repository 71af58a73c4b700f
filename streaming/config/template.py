"""From `JobConfig` to text: the whole file with defaults, each setting below its description.

Reading the text gives an equal configuration. For a secret it says where to find it, as the
configuration does. `settings_reference` lists the same settings for the documentation.
"""

import textwrap
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import attrs

from streaming.config import types
from streaming.config.model import JobConfig

_WIDTH: Final = 100


class SettingReference(NamedTuple):
    """One setting, for the documentation; see `Kind` and `Setting`.

    Attributes:
        default: as TOML; empty if a setting is required or optional.
        is_fixed: whether a job refuses to continue an existing checkpoint with another value.
    """

    name: str
    takes: str
    bounds: str
    default: str
    is_required: bool
    description: str
    is_fixed: bool


class SectionReference(NamedTuple):
    """A table of settings: its header, such as `[vhosts.NAME]`, what it is for, and its keys."""

    header: str
    description: str
    settings: tuple[SettingReference, ...]


def settings_reference() -> Iterator[SectionReference]:
    """Every table of `dlx.toml` and every setting in it, in the order of the file."""
    for name, setting in types.settings_of(JobConfig).items():
        yield from _section_reference(setting, setting.kind.header(name))


def _section_reference(table: types.Setting, header: str) -> Iterator[SectionReference]:
    assert table.kind.section_class is not None
    fields = attrs.fields(table.kind.section_class)
    inner = {each.name: each for each in fields if each.metadata["setting"].kind.section_class}
    settings = tuple(_setting_reference(each) for each in fields if each.name not in inner)
    yield SectionReference(header, table.description, settings)
    for name, field in inner.items():
        yield from _section_reference(field.metadata["setting"], f"[{header.strip('[]')}.{name}]")


def _setting_reference(field: "attrs.Attribute[Any]") -> SettingReference:
    setting: types.Setting = field.metadata["setting"]
    default = types.default_of(field)
    return SettingReference(
        name=field.name,
        takes=setting.kind.takes,
        bounds=setting.kind.bounds,
        default="" if default in (None, attrs.NOTHING) else _toml(default),
        is_required=default is attrs.NOTHING,
        description=setting.description,
        is_fixed=setting.outcome,
    )


def show_config(config: JobConfig) -> str:
    """The configuration as the text of a `dlx.toml`."""
    return "\n".join(_lines(config, "", set())).rstrip("\n") + "\n"


def _lines(section: types.Section, path: str, explained: set[types.Setting]) -> Iterator[str]:
    """The settings with a value after the `=`, then the tables below them."""
    below: list[tuple[str, types.Setting]] = []
    for name, setting in types.settings_of(type(section)).items():
        if setting.kind.section_class is not None or setting.kind.form == "properties":
            below.append((name, setting))
            continue
        value = getattr(section, name)
        yield from _description(setting, explained)
        yield f"# {name} = {setting.example}" if value is None else f"{name} = {_toml(value)}"
    if path:
        yield ""
    for name, setting in below:
        value, inner_path = getattr(section, name), types.join_key(path, name)
        is_new = setting not in explained
        yield from _description(setting, explained)
        if setting.kind.form == "properties":
            yield f"[{inner_path}]"
            yield from (
                f"{types.join_key('', key)} = {_toml(member)}" for key, member in value.items()
            )
            yield ""
        elif value is None and is_new:
            yield from _example(setting, inner_path)
        elif setting.kind.form == "list of tables":
            for member in value:
                yield f"[[{inner_path}]]"
                yield from _lines(member, inner_path, explained)
        else:
            for member_path, member in setting.kind.members(value, inner_path):
                yield f"[{member_path}]"
                yield from _lines(member, member_path, explained)


def _example(table: types.Setting, path: str) -> Iterator[str]:
    """A table that is not set, as comments."""
    assert table.kind.section_class is not None
    yield f"# [{path}]"
    for name, setting in types.settings_of(table.kind.section_class).items():
        yield from _description(setting, set())
        yield f"# {name} = {setting.example}"
    yield ""


def _description(setting: types.Setting, explained: set[types.Setting]) -> list[str]:
    """The setting's description as a comment, the first time."""
    if setting in explained:
        return []
    explained.add(setting)
    return textwrap.wrap(
        setting.description,
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
    )


def _toml(value: Any) -> str:
    """A value as TOML."""
    import tomlkit  # noqa: PLC0415 - most commands that have a configuration write none

    plain = value.toml() if hasattr(value, "toml") else value
    if isinstance(plain, int) and not isinstance(plain, bool):
        return types.write_whole(plain)
    if isinstance(plain, dict):
        members = ", ".join(
            f"{types.join_key('', name)} = {_toml(member)}" for name, member in plain.items()
        )
        return f"{{ {members} }}" if members else "{}"
    return str(tomlkit.item(plain).as_string())
