"""Definitions put into force: what `lint`, `diagram` and `dlx route` ask their questions of."""

import msgspec

from topology.declarations import Definitions, Queue
from topology.policies import PolicyTable, QueueSettings
from topology.routing.router import Router
from topology.values import Compat


class CompiledTopology(msgspec.Struct, frozen=True):
    """One vhost as it stands right after its definitions were imported.

    Attributes:
        router: every exchange, queue and binding, with the alternate exchanges in force.
        policies: both kinds.
        settings: what is in force for each queue, by queue name.
        queues: the declarations, by queue name.
    """

    router: Router
    policies: PolicyTable
    settings: dict[str, QueueSettings]
    queues: dict[str, Queue]


def compile_topology(definitions: Definitions, compat: Compat = "4.0") -> CompiledTopology:
    """Put definitions into force in an empty vhost.

    Args:
        definitions: free of problems (`validation.check_definitions` finds none).
        compat: whose behaviour counts where versions differ.

    Returns:
        The compiled topology; predeclared exchanges (R-DEF-2) are subject to policies too.
    """
    policies = PolicyTable()
    for policy in definitions.policies:
        policies.set(policy)
    for policy in definitions.operator_policies:
        policies.set(policy, operator=True)
    router = Router(compat)
    for exchange in tuple(router.exchanges.values()):
        router.set_alternate(exchange.name, policies.exchange_alternate(exchange))
    for exchange in definitions.exchanges:
        if exchange.name not in router.exchanges:
            router.declare_exchange(exchange, policies.exchange_alternate(exchange))
    for queue in definitions.queues:
        router.declare_queue(queue.name)
    for binding in definitions.bindings:
        router.bind(binding)
    return CompiledTopology(
        router,
        policies,
        {queue.name: policies.queue_settings(queue, compat) for queue in definitions.queues},
        {queue.name: queue for queue in definitions.queues},
    )
