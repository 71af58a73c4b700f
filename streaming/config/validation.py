"""From parsed TOML to `JobConfig`, with cattrs: every problem at once, each with its path.

cattrs reports all failures as one group of exceptions, whose notes say where each one happened;
`_problems_in` turns them into paths of the file. It starts slowly, so that only `loading.py` may
import this module, and only once there is a file to read.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import attrs
from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from streaming.config import types
from streaming.config.model import JobConfig
from streaming.config.rules import Parts, conflicts
from topology.errors import Problem
from topology.suggestions import did_you_mean

Hook = Callable[[Any, Any], Any]
"""How cattrs reads one value; the second argument is its type."""


def config_from(document: Mapping[str, object]) -> JobConfig:
    """Read a configuration from parsed TOML.

    Raises:
        InvalidConfigError: every problem, in the order of the settings.
    """
    try:
        return _STRICT.converter.structure(document, JobConfig)
    except BaseValidationError as error:
        problems = list(_problems_in(error))
    unreadable = [problem.where for problem in problems]
    problems += [
        Problem(conflict.paths[0], conflict.what)
        for conflict in conflicts(_readable_parts(document))
        if not any(_overlap(path, where) for path in conflict.paths for where in unreadable)
    ]
    raise types.InvalidConfigError(tuple(dict.fromkeys(problems)))


class _Reader:
    """Reads sections; a lenient one takes defaults in place of what is unreadable."""

    def __init__(self, *, lenient: bool) -> None:
        self.lenient = lenient
        self.converter = Converter()
        self.converter.register_structure_hook_factory(
            lambda each: isinstance(each, type) and issubclass(each, types.Section), self.section
        )

    def section(self, section_class: type[types.Section]) -> Hook:
        """How to read one table. Lenient: None if two of its values contradict each other."""
        hooks: dict[str, Any] = {
            field.name: override(struct_hook=self.field(field))
            for field in attrs.fields(section_class)
        }
        hooks["_cattrs_forbid_extra_keys"] = not self.lenient
        structure = make_dict_structure_fn(section_class, self.converter, **hooks)
        settings = types.settings_of(section_class).items()
        stand_ins = {name: each.stand_in for name, each in settings if each.stand_in is not None}

        def read(raw: object, _type: object) -> types.Section | None:
            if self.lenient:
                readable = raw if isinstance(raw, dict) else {}
                try:
                    return structure(stand_ins | readable, section_class)
                except BaseValidationError:
                    return None
            return structure(types.table(section_class).read(raw), section_class)

        return read

    def field(self, field: "attrs.Attribute[Any]") -> Hook:
        """How to read and check one setting. Lenient: it never fails."""
        setting: types.Setting = field.metadata["setting"]
        structure: Hook = self.converter.structure

        def read(raw: object, _type: object = None) -> object:
            value = setting.kind.read(raw)
            return value if setting.kind.section_class is None else structure(value, field.type)

        def read_leniently(raw: object, _type: object = None) -> object:
            try:
                value = read(raw)
            except (types.InvalidConfigError, BaseValidationError):
                value = None
            if value is not None:
                return value
            default = types.default_of(field)
            return setting.stand_in if default is attrs.NOTHING else default

        return read_leniently if self.lenient else read


_STRICT: Final = _Reader(lenient=False)


def _readable_parts(document: Mapping[str, object]) -> Parts:
    """The tables that rules depend on, with defaults and stand-ins for unreadable values."""
    reader = _Reader(lenient=True)
    fields = attrs.fields_dict(JobConfig)
    parts: dict[str, Any] = {
        name: reader.field(fields[name])(document[name], None)
        if name in document
        else types.default_of(fields[name])
        for name in Parts._fields
    }
    return Parts(**parts)


def _problems_in(error: Exception, path: str = "") -> Iterator[Problem]:
    """The problems in a group of exceptions, with their paths; unknown keys come first."""
    match error:
        case types.InvalidConfigError():
            yield from error.within(path)
        case ForbiddenExtraKeysError():
            for name in sorted(error.extra_fields):
                yield Problem(types.join_key(path, name), f"unknown key{_hint(name, error.cl)}")
        case KeyError():
            yield Problem(path, "is missing")
        case BaseValidationError():
            for inner in sorted(
                error.exceptions, key=lambda each: not isinstance(each, ForbiddenExtraKeysError)
            ):
                yield from _problems_in(inner, _continued(path, inner))
        case _:
            raise error


def _continued(path: str, error: Exception) -> str:
    """The path of an exception inside a group, from the note that cattrs attached."""
    for note in getattr(error, "__notes__", ()):
        step = getattr(note, "name", None) or getattr(note, "index", None)
        if step is not None:
            return (
                types.join_index(path, step)
                if isinstance(step, int)
                else types.join_key(path, step)
            )
    return path


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
