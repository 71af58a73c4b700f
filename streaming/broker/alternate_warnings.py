"""Warnings of alternate exchanges that are missing, once an exchange and topology version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker.events import Kind

if TYPE_CHECKING:
    from streaming.broker.shard import Shard

MissingAlternate = tuple[str, str]
"""An exchange, and the alternate exchange that it names and that does not exist."""


class AlternateWarnings:
    """Which warnings were given.

    Args:
        given: exchange, alternate exchange, version of the topology at the warning.
    """

    def __init__(self, shard: Shard, given: list[tuple[str, str, int]]) -> None:
        self._shard = shard
        self._given = {(exchange, alternate): version for exchange, alternate, version in given}

    def warn(self, missing: tuple[MissingAlternate, ...]) -> None:
        """Warn of each, unless that was done since the topology changed last."""
        version = self._shard.topology.version
        for exchange, alternate in missing:
            if self._given.get((exchange, alternate)) != version:
                self._given[(exchange, alternate)] = version
                detail = {"exchange": exchange, "missing_alternate_exchange": alternate}
                self._shard.events.add(Kind.WARNING, detail=detail)

    def record(self) -> list[tuple[str, str, int]]:
        """Those that still hold, as `given`."""
        current = self._shard.topology.version
        return [(*pair, version) for pair, version in self._given.items() if version == current]
