"""What the commands that change the topology have in common: who may, and what to say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streaming.broker.events import Actor, Kind
from topology.refusals import Refusal

if TYPE_CHECKING:
    from streaming.broker.shard import Shard

Result = dict[str, Any] | Refusal
Handler = Callable[[Actor, Any], Result]


class TopologyCommands:
    """Commands about one kind of thing."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    @property
    def _vhost(self) -> str:
        return self._shard.config.vhost

    def _forbidden(self, actor: Actor, needs: list[Any]) -> Refusal | None:
        return self._shard.topology.refuse_access(actor.user, needs, self._vhost)

    def _not_administrator(self, actor: Actor) -> Refusal | None:
        return self._shard.topology.refuse_administration(actor.user, self._vhost)

    def _changed(self, what: str, name: str, detail: dict[str, Any]) -> None:
        self._shard.topology_changed()
        self._note(what, name, detail)

    def _note(self, what: str, name: str, detail: dict[str, Any]) -> None:
        self._shard.events.add(Kind.TOPOLOGY, detail={"what": what, "name": name, **detail})
