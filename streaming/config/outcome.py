"""What can change a result: the part of the configuration that is hashed.

A batch that was begun is finished under the configuration it was begun with, or its tables would
hold the results of two. So the hash of everything besides the records that can change a result is
kept beside the checkpoint; where and how fast the job runs is no part of it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from streaming.config.model import JobConfig
from streaming.config.sections import NamedTables, Section, Table, TableList, settings_of
from streaming.config.toml import join_key, write_string

_FORMAT: Final = "dlx-outcome-1"
"""Part of the hash: another way to hash must not meet an old hash by chance."""


def outcome_settings(config: JobConfig) -> dict[str, object]:
    """Path -> JSON value of every setting that can change a result, sorted by path.

    An input is named by its topic, since the order of the inputs changes nothing.
    """
    return dict(sorted(_settings_below(config, "")))


def outcome_hash(config: JobConfig, *, core_version: int, wire_version: int) -> str:
    """sha256, in hex, over all besides the records that can change a result.

    Args:
        config: of it, the settings marked `outcome`.
        core_version: of the broker, raised with every change of its behaviour.
        wire_version: of the Kafka record format.
    """
    hashed = {
        "format": _FORMAT,
        "core_version": core_version,
        "wire_version": wire_version,
        "settings": outcome_settings(config),
    }
    canonical = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def outcome_changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """How two `outcome_settings` differ, in words: one line for each path."""
    return tuple(
        f"{path}: was {_said(before, path)}, now {_said(after, path)}"
        for path in sorted(before.keys() | after.keys())
        if _said(before, path) != _said(after, path)
    )


def _said(settings: Mapping[str, object], path: str) -> str:
    if path not in settings or settings[path] is None:
        return "not set"
    return json.dumps(settings[path], sort_keys=True, ensure_ascii=False)


def _settings_below(section: Section, path: str) -> Iterator[tuple[str, object]]:
    for name, setting in settings_of(type(section)).items():
        value = getattr(section, name)
        below = join_key(path, name)
        match setting.kind:
            case Table():
                if value is not None:
                    yield from _settings_below(value, below)
            case NamedTables():
                for key, member in value.items():
                    yield from _settings_below(member, join_key(below, key))
            case TableList():
                for member in value:
                    yield from _settings_below(member, f"{below}[{write_string(member.topic)}]")
            case _ if setting.outcome:
                yield below, msgspec.to_builtins(value)
            case _:
                pass
