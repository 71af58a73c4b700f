"""Tables of `dlx.toml` as frozen structs: one generic reader for all of them.

Reading goes on after a mistake, with the default in the place of what could not be read, so that
one run names every problem. A section that code builds is held to the same bounds: it raises.
"""

from collections.abc import Mapping
from functools import cache
from typing import Generic, TypeVar, get_type_hints

import msgspec
from msgspec.structs import FieldInfo, fields, force_setattr

from streaming.config.errors import InvalidConfigError, Place
from streaming.config.settings import Setting
from streaming.config.toml import kind_of
from streaming.config.types import Scalar, name_fault
from topology.suggestions import did_you_mean


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose fields carry a `Setting`.

    Raises:
        InvalidConfigError: a value is out of bounds, or two contradict each other.
    """

    def __post_init__(self) -> None:
        """Check each value, then the rules between them; paths start at this section.

        A `file://` URL becomes the path that it names.
        """
        place = Place()
        for name, setting in settings_of(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                setting.kind.check(value, place.key(name))
            if isinstance(value, str) and isinstance(setting.kind, Scalar):
                force_setattr(self, name, setting.kind.plain(value))
        if not place.problems:
            self.check_together(place)
        if place.problems:
            raise InvalidConfigError(place.problems)

    def check_together(self, place: Place) -> None:
        """Report what is wrong with values that are right each by itself."""


S = TypeVar("S", bound=Section)


@cache
def settings_of(section_class: type[Section]) -> dict[str, Setting]:
    """Field name -> setting, in the order of the fields."""
    hints = get_type_hints(section_class, include_extras=True)
    return {
        name: next(extra for extra in hints[name].__metadata__ if isinstance(extra, Setting))
        for name in section_class.__struct_fields__
    }


@cache
def _fields_of(section_class: type[Section]) -> dict[str, FieldInfo]:
    return {field.name: field for field in fields(section_class)}


def is_required(section_class: type[Section], name: str) -> bool:
    """Whether a field has no default."""
    return _fields_of(section_class)[name].required


def read_table(raw: object, place: Place) -> dict[str, object] | None:
    """A table as it is; None if it was reported to be something else."""
    if isinstance(raw, dict):
        return raw
    place.report(f"expected a table, got {kind_of(raw)}")
    return None


def read_section(section_class: type[S], raw: object, place: Place) -> S | None:
    """Read one table.

    Returns:
        The section, with defaults or stand-ins for what was reported as unreadable; None if two
        values contradict each other.
    """
    values = read_values(section_class, raw, place)
    for name, setting in settings_of(section_class).items():
        if name not in values and is_required(section_class, name):
            values[name] = setting.stand_in
    try:
        return section_class(**values)
    except InvalidConfigError as error:
        place.report_within(error.problems)
        return None


def read_values(section_class: type[Section], raw: object, place: Place) -> dict[str, object]:
    """Field name -> value, of the fields that are there and readable; the rest is reported."""
    table = read_table(raw, place)
    if table is None:
        return {}
    settings = settings_of(section_class)
    report_unknown_keys(table, settings, place)
    values: dict[str, object] = {}
    for name, setting in settings.items():
        if name in table:
            value = setting.kind.read(table[name], place.key(name))
            if value is not None:
                values[name] = value
        elif is_required(section_class, name):
            place.key(name).report("is missing")
    return values


def report_unknown_keys(
    table: Mapping[str, object], settings: Mapping[str, Setting], place: Place
) -> None:
    """Refuse keys that no setting has, with the one probably meant, or the table it belongs in."""
    for name in table:
        if name in settings:
            continue
        hint = did_you_mean(name, settings)
        if name in place.elsewhere:
            hint = f" (it belongs in {place.elsewhere[name]})"
        place.key(name).report(f"unknown key{hint}")


class Table(Generic[S]):
    """The kind of a table of settings."""

    def __init__(self, section_class: type[S]) -> None:
        self.section_class = section_class

    def header(self, name: str) -> str:
        """How such tables are headed, for messages."""
        return f"[{name}]"

    def read(self, raw: object, place: Place) -> S | None:
        """Read the section."""
        return read_section(self.section_class, raw, place)

    def check(self, value: object, place: Place) -> None:
        """Nothing: a section has checked itself."""


class NamedTables(Generic[S]):
    """The kind of a table of tables, such as `[vhosts.NAME]`: a dict in the section."""

    def __init__(self, section_class: type[S], noun: str) -> None:
        """`noun` is what each name names, such as `vhost`."""
        self.section_class, self.noun = section_class, noun

    def header(self, name: str) -> str:
        """How such tables are headed, for messages."""
        return f"[{name}.NAME]"

    def read(self, raw: object, place: Place) -> dict[str, S] | None:
        """Name -> section."""
        table = read_table(raw, place)
        if table is None:
            return None
        self.check(table, place)
        sections: dict[str, S] = {}
        for name, member in table.items():
            section = read_section(self.section_class, member, place.key(name))
            if section is not None:
                sections[name] = section
        return sections

    def check(self, value: object, place: Place) -> None:
        """Check the names, and that there is one."""
        assert isinstance(value, dict)
        if not value:
            place.report(f"is empty: name at least one {self.noun}")
        for name in value:
            fault = name_fault(name)
            if fault is not None:
                place.key(name).report(f"the name of this {self.noun} {fault}")


class TableList(Generic[S]):
    """The kind of an array of tables, such as `[[inputs]]`: a tuple in the section."""

    def __init__(self, section_class: type[S], noun: str) -> None:
        """`noun` is what each element is, such as `input`."""
        self.section_class, self.noun = section_class, noun

    def header(self, name: str) -> str:
        """How such tables are headed, for messages."""
        return f"[[{name}]]"

    def read(self, raw: object, place: Place) -> tuple[S | None, ...] | None:
        """The sections in order; None in the place of one that is unreadable."""
        if not isinstance(raw, list):
            place.report(f"expected an array of tables, got {kind_of(raw)}")
            return None
        self.check(tuple(raw), place)
        return tuple(
            read_section(self.section_class, member, place.index(position))
            for position, member in enumerate(raw)
        )

    def check(self, value: object, place: Place) -> None:
        """Check that there is one."""
        if not value:
            place.report(f"is empty: there must be at least one {self.noun}")
