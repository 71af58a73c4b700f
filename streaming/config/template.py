"""From `JobConfig` to text: the whole file, defaults included, each setting under its comment.

Reading the text gives an equal configuration. Of secrets it holds where they are, as the
configuration itself does.
"""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from streaming.config.model import JobConfig
from streaming.config.pass_through import Properties, write_property
from streaming.config.secrets import Property
from streaming.config.sections import NamedTables, Section, Table, TableList, settings_of
from streaming.config.settings import Inline
from streaming.config.toml import join_key, write_key

_WIDTH: Final = 100


def show_config(config: JobConfig) -> str:
    """The configuration as the text of a `dlx.toml`."""
    return "\n".join(_Writer().document(config)).rstrip("\n") + "\n"


class _Writer:
    """Writes one document; a setting's comment stands where the setting is shown first."""

    def __init__(self) -> None:
        self.explained: set[tuple[type[Section], str]] = set()

    def document(self, config: JobConfig) -> Iterator[str]:
        for name, setting in settings_of(JobConfig).items():
            value = getattr(config, name)
            yield from _comment(setting.comment)
            if isinstance(setting.kind, Table):
                yield from self.section(value, name, f"[{name}]")
            elif isinstance(setting.kind, NamedTables):
                for key, member in value.items():
                    path = join_key(name, key)
                    yield from self.section(member, path, f"[{path}]")
            else:
                assert isinstance(setting.kind, TableList)
                for member in value:
                    yield from self.section(member, name, f"[[{name}]]")

    def section(self, section: Section, path: str, header: str) -> Iterator[str]:
        """A header, the settings with a value behind the `=`, then the tables below it."""
        yield header
        below: list[tuple[str, object]] = []
        for name, setting in settings_of(type(section)).items():
            value = getattr(section, name)
            if isinstance(setting.kind, Table | Properties):
                below.append((name, value))
                continue
            yield from self.explanation(section, name)
            assert isinstance(setting.kind, Inline)
            if value is None:
                yield f"# {name} = {setting.example}"
            else:
                yield f"{name} = {setting.kind.write(value)}"
        yield ""
        for name, value in below:
            member_path = join_key(path, name)
            yield from self.explanation(section, name)
            if isinstance(value, Section):
                yield from self.section(value, member_path, f"[{member_path}]")
            elif value is None:
                yield from self.example(section, name, member_path)
            else:
                assert isinstance(value, dict)
                yield from _properties(value, member_path)

    def example(self, section: Section, name: str, path: str) -> Iterator[str]:
        """A table that is not set, as a comment, the first time."""
        kind = settings_of(type(section))[name].kind
        assert isinstance(kind, Table)
        section_class: type[Section] = kind.section_class
        if (section_class, "") not in self.explained:
            self.explained.add((section_class, ""))
            yield f"# [{path}]"
            for member, setting in settings_of(section_class).items():
                yield from _comment(setting.comment)
                yield f"# {member} = {setting.example}"
            yield ""

    def explanation(self, section: Section, name: str) -> Iterator[str]:
        """The setting's comment, the first time."""
        if (type(section), name) not in self.explained:
            self.explained.add((type(section), name))
            yield from _comment(settings_of(type(section))[name].comment)


def _properties(properties: Mapping[str, Property], path: str) -> Iterator[str]:
    yield f"[{path}]"
    for name, value in properties.items():
        yield f"{write_key(name)} = {write_property(value)}"
    yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
