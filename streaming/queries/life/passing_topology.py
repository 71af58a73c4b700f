"""What was declared for a while, such as exclusive queues: a definitions file cannot have it.

An object is passing if neither the definitions have it nor the topology at the end of the tables,
but for exclusive queues. The definitions may leave out what is declared at the end: that is a wish.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from streaming.broker import commands
from streaming.broker.shard import Shard
from streaming.protocol.command_json import parse_command
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.scenario import topology_command
from streaming.queries.vhosts.declared import Declared, declared
from topology.declarations import RESERVED_PREFIX, Definitions, Policy, Queue

_KINDS = ("queue", "exchange", "policy", "operator_policy")


class PassingTopology:
    """What came and went in one vhost.

    Args:
        cut: where the replay begins.
        wanted: what holds from there on.
    """

    def __init__(self, tables: Tables, cut: Cut, vhost: str, wanted: Definitions) -> None:
        tables.cut = cut
        before = declared(tables).get(vhost) if cut.batch_id >= 0 else None
        tables.cut = None
        at_the_end = declared(tables)[vhost]
        self._before = before or Declared()
        self._lasting = {
            kind: _names(kind, wanted) | _at_the_end(kind, at_the_end) for kind in _KINDS
        }

    def has_queue(self, name: str) -> bool:
        """Whether a queue is passing."""
        return name not in self._lasting["queue"]

    def at_the_beginning(self) -> Iterator[commands.Command]:
        """Declare what was there at the beginning."""
        for detail in self._before.details.values():
            command = self.command(detail)
            if command is not None:
                yield command

    def command(self, detail: dict[str, Any]) -> commands.Command | None:
        """The command of a topology event; None if it concerns only what lasts."""
        what = detail["what"]
        kind, _, _change = what.rpartition("_")
        name = detail["name"] or detail.get("policy", "")
        if what in {"bound", "unbound"}:
            to = detail.get("destination_type", "queue")
            ends = (("exchange", detail["source"]), (to, name))
            is_passing = any(end not in self._lasting[each] for each, end in ends)
        else:
            is_passing = kind in _KINDS and name not in self._lasting[kind]
        document = topology_command(what, detail) if is_passing else None
        return None if document is None else parse_command(document)

    def execute(self, shard: Shard, at_ms: int, command: commands.Command) -> None:
        """Execute a declaration; only the broker itself could give such a name to a queue."""
        if isinstance(command, commands.DeclareQueue):
            queue = lasting_queue(command.queue)
            if queue.name.startswith(RESERVED_PREFIX):
                shard.advance(at_ms)
                if queue.name not in shard.vhost.queues:
                    shard.vhost.add_queue(queue)
                    shard.vhost.version += 1
                return
            command = msgspec.structs.replace(command, queue=queue)
        shard.command(at_ms, command)


def lasting_queue(queue: Queue) -> Queue:
    """A queue that nothing deletes but a command."""
    arguments = {name: value for name, value in queue.arguments.items() if name != "x-expires"}
    return msgspec.structs.replace(queue, auto_delete=False, exclusive=False, arguments=arguments)


def lasting_policy(policy: Policy) -> Policy:
    """A policy under which no queue expires; it hides others of lower priority all the same."""
    definition = {name: value for name, value in policy.definition.items() if name != "expires"}
    return msgspec.structs.replace(policy, definition=definition)


def _names(kind: str, wanted: Definitions) -> set[str]:
    objects: dict[str, Any] = {
        "queue": wanted.queues,
        "exchange": wanted.exchanges,
        "policy": wanted.policies,
        "operator_policy": wanted.operator_policies,
    }
    return {one.name for one in objects[kind]}


def _at_the_end(kind: str, declared_then: Declared) -> set[str]:
    if kind == "queue":
        return {name for name, one in declared_then.queues.items() if not one.exclusive}
    objects: dict[str, Any] = {
        "exchange": declared_then.exchanges,
        "policy": declared_then.policies,
        "operator_policy": declared_then.operator_policies,
    }
    return set(objects[kind])
