"""All resources of the API."""

from typing import Final

from streaming.management.resources import (
    bindings,
    clients,
    cluster,
    definitions,
    exchanges,
    health,
    node_memory,
    parameters,
    policies,
    queues,
    users,
    vhosts,
)
from streaming.management.routing import Resource

RESOURCES: Final[list[Resource]] = [
    *cluster.RESOURCES,
    *health.RESOURCES,
    *node_memory.RESOURCES,
    *vhosts.RESOURCES,
    *users.RESOURCES,
    *exchanges.RESOURCES,
    *queues.RESOURCES,
    *bindings.RESOURCES,
    *clients.RESOURCES,
    *policies.RESOURCES,
    *parameters.RESOURCES,
    *definitions.RESOURCES,
]
