"""Virtual hosts."""

from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.access import MONITORS
from streaming.management.answers import created, done
from streaming.management.bodies import Members
from streaming.management.counting import Range, lengths_of, with_rates
from streaming.management.errors import bad_request, deleted_meanwhile, term
from streaming.management.formats import NODE
from streaming.management.listing import Listing, has_no_statistics
from streaming.management.port import VhostInfo
from streaming.management.resources.cluster import LENGTHS, STATS
from streaming.management.resources.doing import administer, administrator_of
from streaming.management.routing import (
    BAD_REQUEST,
    NO_RANGE,
    Asked,
    Resource,
    administrator,
    anyone,
)
from streaming.management.totals import totals_of
from topology.declarations import MAX_NAME_BYTES
from topology.validation.arguments import QUEUE_TYPES


async def vhost_item(asked: Asked, vhost: OpenVhost) -> dict[str, Any]:
    """A vhost and its messages."""
    info = asked.front.info(vhost.name)
    found = {
        "name": vhost.name,
        **described_vhost(info),
        "tracing": info.tracing,
        "cluster_state": {NODE: "running"},
    }
    if has_no_statistics(asked.query):
        return found
    found |= _bytes(asked, vhost)
    totals = await asked.api.shared.get([vhost], "totals", lambda: totals_of([vhost]))
    counting = asked.api.counting
    counts, series = counting.vhost(vhost.name)
    lengths = lengths_of(totals.ready, totals.unacked, totals.held)
    wanted = Range(asked.query, "lengths")
    found |= with_rates(lengths, LENGTHS, series, counting.last_ms, wanted)
    if any(counts.values()):
        rates = Range(asked.query, "msg_rates")
        found["message_stats"] = with_rates(counts, STATS, series, counting.last_ms, rates)
    return found


def _bytes(asked: Asked, vhost: OpenVhost) -> dict[str, Any]:
    """What went over the open connections of a vhost, if there are any."""
    counting, sums = asked.api.counting, dict[str, float]()
    for connection in list(asked.front.server.connections):
        if connection.vhost is vhost:
            counts, series = counting.connection(connection)
            for name, count in counts.items():
                rate = 0.0 if series is None else series.rate(name)
                sums[name] = sums.get(name, 0) + count
                sums[f"{name}_details"] = sums.get(f"{name}_details", 0.0) + rate
    return {
        name: {"rate": value} if name.endswith("_details") else value
        for name, value in sums.items()
    }


def described_vhost(info: VhostInfo) -> dict[str, Any]:
    """What is said of a vhost, as definitions have it."""
    metadata = {
        "description": info.description,
        "tags": list(info.tags),
        "default_queue_type": info.default_queue_type,
    }
    return {
        "description": info.description,
        "metadata": metadata,
        "tags": list(info.tags),
        "default_queue_type": info.default_queue_type,
    }


async def all_vhosts(asked: Asked) -> Any:
    """The vhosts that the user may see."""
    vhosts = sorted(asked.front.server.vhosts.items())
    sees_all = asked.has(MONITORS)
    items = [
        await vhost_item(asked, vhost) for _, vhost in vhosts if sees_all or asked.may_log_in(vhost)
    ]
    return await Listing(asked.query, ("name",)).reply(items)


async def one_vhost(asked: Asked) -> Any:
    """A vhost."""
    return await vhost_item(asked, asked.vhost)


def imported_info(document: dict[str, Any], before: VhostInfo) -> VhostInfo:
    """What a definitions document says of a vhost; see `read_info`."""
    metadata = document.get("metadata")
    return read_info({**(metadata if isinstance(metadata, dict) else {}), **document}, before)


def read_info(said: dict[str, Any], before: VhostInfo) -> VhostInfo:
    """What a request says of a vhost. It replaces all but the type of queues and the tracing.

    Raises:
        ApiError: 400, the type of queues is unknown.
    """
    tags = said.get("tags") or []
    words = tags.split(",") if isinstance(tags, str) else tags
    named = (
        said.get("default_queue_type", said.get("defaultqueuetype")) or before.default_queue_type
    )
    queue_type = before.default_queue_type if named == "undefined" else named
    if queue_type not in QUEUE_TYPES:
        raise bad_request(f"Unsupported default queue type '{queue_type}'")
    if not isinstance(words, list):
        raise bad_request("tags must be a text or an array")
    return VhostInfo(
        str(said.get("description") or ""),
        tuple(str(word).strip() for word in words if str(word).strip()),
        str(queue_type),
        Members(said).flag("tracing", default=before.tracing),
    )


async def put_vhost(asked: Asked) -> Response:
    """Make a vhost that its maker may use, or change what is said of it."""
    name, front = asked.names["vhost"], asked.front
    if not name:
        raise bad_request("vhost_name_is_empty")
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise bad_request("vhost_name_is_too_long")
    info = read_info(asked.members().document, front.info(name))
    new = await front.put_vhost(name, info, administrator_of(asked))
    if new:
        everything = commands.SetPermissions(
            user=asked.user.name, configure=".*", write=".*", read=".*"
        )
        vhost = front.server.vhosts.get(name)
        if vhost is None:
            raise deleted_meanwhile(name)
        await administer(asked, vhost, everything)
    return created(new=new)


async def delete_vhost(asked: Asked) -> Response:
    """Delete a vhost with everything in it."""
    await asked.front.delete_vhost(asked.vhost.name, administrator_of(asked))
    return done()


async def start_vhost(asked: Asked) -> Response:
    """Accept that a vhost is to run, which it does."""
    node, vhost = asked.names["node"], asked.names["vhost"]
    if node != NODE:
        raise bad_request(f"Request to node {node} failed with nodedown")
    if vhost not in asked.front.server.vhosts:
        raise bad_request(f"Request to node {node} failed with {{no_such_vhost,{term(vhost)}}}")
    return done()


RESOURCES: Final = [
    Resource("vhosts", anyone, {"GET": all_vhosts}, no_range=NO_RANGE),
    Resource(
        "vhosts/{vhost}",
        administrator,
        {"GET": one_vhost, "PUT": put_vhost, "DELETE": delete_vhost},
        no_range=BAD_REQUEST,
    ),
    Resource("vhosts/{vhost}/start/{node}", administrator, {"POST": start_vhost}),
]
