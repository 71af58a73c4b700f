"""A vhost: everything declared in it, and what results from it.

The one model of a vhost. The broker changes it command by command; `dlx check`, `dlx route` and
`dlx diagram` build it from definitions and only read it. Validity is checked elsewhere, before a
change: see `validation`.
"""

from __future__ import annotations

from collections.abc import Mapping

from topology.declarations import Binding, Definitions, Exchange, Queue, VhostLimits
from topology.permissions import Access, Need, PermissionTable, TopicPermissionTable
from topology.policies import NO_TIMEOUT_MS, PolicyTable, QueueSettings
from topology.refusals import Refusal, access_refused, exchange_in
from topology.routing.router import Router
from topology.values import Compat


class Vhost:
    """Exchanges, queues, bindings, policies and permissions of one vhost.

    Attributes:
        queues: the declarations, by queue name.
        queue_numbers, queue_names: the number that stands for each queue in stored state.
        exclusive_queues: names of the queues that are deleted with their channel.
        next_queue_number: numbers are never reused.
        version: grows with every change; the broker increments it.
        limits: how many queues and connections it may have.
        parameters: by component and name: value and secret, which mean nothing to the broker.
        administrators: users who may change policies and permissions.
        enforce_permissions: False if every user may do everything.
        default_delivery_limit: for quorum queues without a limit; None for that of `compat`.
    """

    def __init__(self, compat: Compat = "4.0") -> None:
        self.compat = compat
        self.router = Router(compat)
        self.policies = PolicyTable()
        self.permissions = PermissionTable()
        self.topic_permissions = TopicPermissionTable()
        self.limits = VhostLimits()
        self.parameters: dict[tuple[str, str], tuple[str, str | None]] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_numbers: dict[str, int] = {}
        self.queue_names: dict[int, str] = {}
        self.exclusive_queues: set[str] = set()
        self.next_queue_number = 1
        self.version = 0
        self.administrators: tuple[str, ...] = ()
        self.enforce_permissions = True
        self.default_delivery_limit: int | None = None
        self._settings: dict[str, QueueSettings] = {}
        self._settings_basis: tuple[int, int | None] = (0, None)
        self._shortest_timeout_ms = NO_TIMEOUT_MS
        self._shortest_timeout_basis = (-1, -1)

    @classmethod
    def from_definitions(
        cls,
        definitions: Definitions,
        compat: Compat = "4.0",
        queue_numbers: Mapping[str, int] | None = None,
    ) -> Vhost:
        """Build the vhost that these definitions describe.

        Args:
            definitions: valid ones: `find_problems` finds nothing in them.
            queue_numbers: the number of each queue; None to number them in order.
        """
        vhost = cls(compat)
        vhost.policies.load(definitions.policies)
        vhost.policies.load(definitions.operator_policies, operator=True)
        for permission in definitions.permissions:
            vhost.permissions.set(permission)
        for limits in definitions.limits:
            vhost.limits = limits
        for topic_permission in definitions.topic_permissions:
            vhost.topic_permissions.set(topic_permission)
        for exchange in definitions.exchanges:
            if exchange.name not in vhost.router.exchanges:
                vhost.router.declare_exchange(exchange)
        vhost.update_alternates()
        for queue in definitions.queues:
            vhost.add_queue(queue, queue_numbers[queue.name] if queue_numbers else None)
        for binding in definitions.bindings:
            vhost.router.bind(binding)
        return vhost

    def definitions(self) -> Definitions:
        """Everything declared, in a fixed order."""
        return Definitions(
            exchanges=tuple(exchange for _, exchange in sorted(self.router.exchanges.items())),
            queues=tuple(queue for _, queue in sorted(self.queues.items())),
            bindings=tuple(self.router.bindings.all()),
            policies=tuple(self.policies.policies()),
            operator_policies=tuple(self.policies.policies(operator=True)),
            permissions=tuple(self.permissions.permissions()),
            topic_permissions=tuple(self.topic_permissions.permissions()),
            limits=() if self.limits == VhostLimits() else (self.limits,),
        )

    def add_queue(self, queue: Queue, number: int | None = None) -> int:
        """Declare a queue and return its number; a new one unless `number` is given."""
        if number is None:
            number = self.next_queue_number
        self.next_queue_number = max(self.next_queue_number, number + 1)
        self.queues[queue.name] = queue
        self.queue_numbers[queue.name] = number
        self.queue_names[number] = queue.name
        if queue.exclusive:
            self.exclusive_queues.add(queue.name)
        self.router.declare_queue(queue.name)
        return number

    def remove_queue(self, name: str) -> list[Binding]:
        """Delete a queue and its bindings; returns those bindings."""
        del self.queues[name]
        del self.queue_names[self.queue_numbers.pop(name)]
        self.exclusive_queues.discard(name)
        self._settings.pop(name, None)
        return self.router.delete_queue(name)

    def settings(self, queue: Queue) -> QueueSettings:
        """The effective settings of a queue: arguments, policies and defaults combined.

        The settings of declared queues are cached until a policy changes: with thousands of active
        queues, computing them would take a third of a batch's time.
        """
        basis = (self.policies.changes, self.default_delivery_limit)
        if basis != self._settings_basis:
            self._settings.clear()
            self._settings_basis = basis
        declared = self.queues.get(queue.name) is queue
        settings = self._settings.get(queue.name) if declared else None
        if settings is None:
            settings = self.policies.queue_settings(queue, self.compat, self.default_delivery_limit)
            if declared:
                self._settings[queue.name] = settings
        return settings

    def all_settings(self) -> dict[str, QueueSettings]:
        """The effective settings of every declared queue, by name."""
        return {name: self.settings(queue) for name, queue in self.queues.items()}

    def shortest_timeout_ms(self) -> int:
        """The shortest consumer timeout that a queue has of its own; `NO_TIMEOUT_MS` if none has.

        Like `version`, it counts when a change of the vhost is complete.
        """
        basis = (self.version, self.policies.changes)
        if basis != self._shortest_timeout_basis:
            every = (one.consumer_timeout_ms for one in self.all_settings().values())
            self._shortest_timeout_ms = min(
                (timeout_ms for timeout_ms in every if timeout_ms is not None),
                default=NO_TIMEOUT_MS,
            )
            self._shortest_timeout_basis = basis
        return self._shortest_timeout_ms

    def update_alternates(self) -> None:
        """Recompute every exchange's alternate exchange, after policies changed (R-AE-5)."""
        for exchange in self.router.exchanges.values():
            if exchange.name:
                self.router.set_alternate(exchange.name, self.policies.exchange_alternate(exchange))

    def refuse_access(self, user: str | None, needs: list[Need], vhost: str) -> Refusal | None:
        """403 if permissions are enforced and the user lacks one that is needed.

        An administrator without permissions of their own may do everything.
        """
        if not self.enforce_permissions:
            return None
        if user in self.administrators and not self.permissions.knows(user):
            return None
        return self.permissions.refuse(user, needs, vhost)

    def refuse_topics(
        self,
        user: str | None,
        access: Access,
        exchange: Exchange,
        routing_keys: tuple[str, ...],
        vhost: str,
    ) -> Refusal | None:
        """403 for the first key of a topic exchange that the user may not write to, or read from.

        RabbitMQ 3.10 does not say which of the two.
        """
        if not self.enforce_permissions or user is None or exchange.type != "topic":
            return None
        for key in routing_keys:
            if not self.topic_permissions.allows(user, access, exchange.name, key, vhost):
                which = "" if self.compat == "3.10" else f"{access} "
                return access_refused(
                    f"{which}access to topic '{key}' in {exchange_in(exchange.name, vhost)}"
                    f" refused for user '{user}'"
                )
        return None

    def refuse_administration(
        self, user: str | None, vhost: str, act: str = "change policies or permissions"
    ) -> Refusal | None:
        """403 if the user is not an administrator, who alone may do this."""
        if not self.enforce_permissions or user is None or user in self.administrators:
            return None
        return access_refused(
            f"user '{user}' is not an administrator and may not {act} in vhost '{vhost}'"
        )
