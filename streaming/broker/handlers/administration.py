"""Commands that change the topology, and what their changes do to queues and messages at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.broker import commands
from streaming.broker.handlers.access import Handler, Result, TopologyCommands
from streaming.broker.handlers.definitions_export import export_page
from streaming.broker.handlers.definitions_import import import_definitions
from streaming.broker.handlers.exchanges import ExchangeCommands
from streaming.broker.handlers.policies import PolicyCommands
from streaming.broker.handlers.queues import QueueCommands

if TYPE_CHECKING:
    from streaming.broker.events import Actor
    from streaming.broker.shard import Shard


class Administration(TopologyCommands):
    """The topology commands of one shard.

    Attributes:
        exchanges, queues, policies: who carries out the commands about them.
    """

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard)
        self.exchanges = ExchangeCommands(shard)
        self.queues = QueueCommands(shard)
        self.policies = PolicyCommands(shard)

    def handlers(self) -> dict[type, Handler]:
        """Which method carries out which command."""
        return {
            **self.exchanges.handlers(),
            **self.queues.handlers(),
            **self.policies.handlers(),
            commands.ImportDefinitions: self._import,
            commands.ExportDefinitions: self._export,
        }

    def _import(self, actor: Actor, command: commands.ImportDefinitions) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        return import_definitions(
            self, self._shard.topology, actor, command.definitions, self._vhost
        )

    def _export(self, actor: Actor, command: commands.ExportDefinitions) -> Result:
        refusal = self._not_administrator(actor)
        if refusal is not None:
            return refusal
        return export_page(self._shard.topology, self._vhost, command.first)
