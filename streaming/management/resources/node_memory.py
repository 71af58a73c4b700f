"""What takes the memory of the node: messages, and everything else."""

import resource
from math import ceil
from typing import Any, Final

from streaming.management.errors import missing
from streaming.management.formats import NODE
from streaming.management.routing import Asked, Resource, monitor

_PROCESSES: Final = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
)
_MEMORY: Final = (
    *_PROCESSES,
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)
"""What RabbitMQ says its memory is used for."""

_BINARY: Final = (
    *_PROCESSES,
    "metadata_store",
    "plugins",
    "mgmt_db",
    "msg_index",
    "other",
)
"""What RabbitMQ says its binaries belong to."""


def expect_node(asked: Asked) -> None:
    """404 unless the node in the path is the one that there is."""
    if asked.names["node"] != NODE:
        raise missing()


def memory_used() -> int:
    """The most that the process has used so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_parts(asked: Asked) -> dict[str, dict[str, Any]]:
    """The parts of the memory in bytes, and of what Erlang calls binaries."""
    resident = sum(vhost.held_bytes for vhost in asked.front.server.vhosts.values())
    used = memory_used()
    memory = {
        **dict.fromkeys(_MEMORY, 0),
        "queue_procs": resident,
        "other_system": max(0, used - resident),
        "strategy": "rss",
        "total": dict.fromkeys(("erlang", "rss", "allocated"), used),
    }
    return {"memory": memory, "binary": dict.fromkeys(_BINARY, 0)}


async def memory(asked: Asked) -> Any:
    """See `memory_parts`."""
    expect_node(asked)
    return {"memory": memory_parts(asked)["memory"]}


async def relative(asked: Asked) -> Any:
    """The parts as percents of the whole."""
    expect_node(asked)
    parts, used = memory_parts(asked)["memory"], memory_used()
    shares = {name: ceil(100 * parts[name] / used) for name in _MEMORY}
    return {"memory": {"total": 100, **shares}}


async def tables(asked: Asked) -> Any:
    """The tables of Erlang, of which there are none."""
    expect_node(asked)
    return {"ets_tables_memory": {"total": 0}}


RESOURCES: Final = [
    Resource("nodes/{node}/memory", monitor, {"GET": memory}),
    Resource("nodes/{node}/memory/relative", monitor, {"GET": relative}),
    Resource("nodes/{node}/memory/ets", monitor, {"GET": tables}),
    Resource("nodes/{node}/memory/ets/{filter}", monitor, {"GET": tables}),
]
