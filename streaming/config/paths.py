"""Relative paths start at the folder of the file that names them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from streaming.config.pass_through import Properties
from streaming.config.secrets import Property, Secret
from streaming.config.sections import NamedTables, Section, Table, TableList, settings_of
from streaming.config.types import Scalar, is_url

S = TypeVar("S", bound=Section)


def rooted(section: S, folder: Path) -> S:
    """The same configuration with every path absolute.

    Paths are the settings of kinds `local` and `storage` (unless a URL), the files of secrets,
    and properties that end in `.location`, such as `ssl.ca.location`. `~` is the home folder.
    """
    changed: dict[str, object] = {}
    for name, setting in settings_of(type(section)).items():
        value = getattr(section, name)
        if value is None:
            continue
        match setting.kind:
            case Scalar(names="local"):
                changed[name] = _absolute(value, folder)
            case Scalar(names="storage"):
                changed[name] = value if is_url(value) else _absolute(value, folder)
            case Properties():
                changed[name] = _rooted_properties(value, folder)
            case Table():
                changed[name] = rooted(value, folder)
            case NamedTables():
                changed[name] = {key: rooted(member, folder) for key, member in value.items()}
            case TableList():
                changed[name] = tuple(rooted(member, folder) for member in value)
            case _:
                pass
    return replace(section, **changed)


def _rooted_properties(properties: Mapping[str, Property], folder: Path) -> dict[str, Property]:
    rooted_properties: dict[str, Property] = {}
    for name, value in properties.items():
        if isinstance(value, Secret) and value.source == "file":
            rooted_properties[name] = Secret("file", _absolute(value.name, folder))
        elif isinstance(value, str) and name.endswith(".location"):
            rooted_properties[name] = _absolute(value, folder)
        else:
            rooted_properties[name] = value
    return rooted_properties


def _absolute(path: str, folder: Path) -> str:
    return str(folder / Path(path).expanduser())
