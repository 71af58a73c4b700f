"""Which settings can change a result: the part of the configuration that is hashed.

A batch that was started must be finished under the same configuration, or its tables would mix the
results of two. The checkpoint therefore keeps a hash of everything that can change a result apart
from the records. Where and how fast the job runs is not part of it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streaming.config.model import JobConfig
from streaming.config.types import Section, join_key, settings_of, write_string

_FORMAT: Final = "dlx-outcome-1"
"""Part of the hash: a different way of hashing must never match an old hash by chance."""


def outcome_settings(config: JobConfig) -> dict[str, object]:
    """Path -> JSON value of every setting that can change a result, sorted by path.

    The path of an input contains its topic, since the order of the inputs changes nothing.
    """
    return dict(sorted(_settings_below(config, "")))


def outcome_hash(config: JobConfig, *, core_version: int, wire_version: int) -> str:
    """sha256, in hex, of everything that can change a result apart from the records.

    Args:
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
    """How two `outcome_settings` differ: one line per path."""
    return tuple(
        f"{path}: was {_shown(before, path)}, now {_shown(after, path)}"
        for path in sorted(before.keys() | after.keys())
        if _shown(before, path) != _shown(after, path)
    )


def _shown(settings: Mapping[str, object], path: str) -> str:
    if settings.get(path) is None:
        return "not set"
    return json.dumps(settings[path], sort_keys=True, ensure_ascii=False)


def _settings_below(section: Section, path: str) -> Iterator[tuple[str, object]]:
    for name, setting in settings_of(type(section)).items():
        value = getattr(section, name)
        below = join_key(path, name)
        if setting.kind.section_class is not None:
            for member_path, member in setting.kind.members(value, below):
                is_input = setting.kind.form == "list of tables"
                named = f"{below}[{write_string(member.topic)}]" if is_input else member_path
                yield from _settings_below(member, named)
        elif setting.outcome:
            yield below, _plain(value)


def _plain(value: Any) -> object:
    """A setting's value as JSON."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return value.toml() if hasattr(value, "toml") else value
