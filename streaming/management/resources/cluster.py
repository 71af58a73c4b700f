"""The cluster, which is one node, and the user: `overview`, `nodes`, `whoami` and the like."""

import os
import platform
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.responses import Response

from streaming.amqp.login import new_password_hash
from streaming.management.access import MONITORS
from streaming.management.answers import as_json, done
from streaming.management.counting import CHURN, QUEUE_STATS, Range, details, lengths_of, with_rates
from streaming.management.errors import bad_request
from streaming.management.formats import EXCHANGE_TYPES, NODE, VERSION
from streaming.management.listing import Listing, has_no_statistics
from streaming.management.resources.doing import administrator_of
from streaming.management.resources.node_memory import expect_node, memory_parts, memory_used
from streaming.management.routing import (
    BAD_REQUEST,
    JSON_ALONE,
    Asked,
    Resource,
    administrator,
    anyone,
    monitor,
)
from streaming.management.totals import totals_of

STATS: Final = (
    *QUEUE_STATS,
    "confirm",
    "drop_unroutable",
    "return_unroutable",
)
LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")

_MECHANISMS: Final = {
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "ANONYMOUS": "SASL ANONYMOUS authentication mechanism",
    "EXTERNAL": "TLS peer verification using SASL EXTERNAL",
    "PLAIN": "SASL PLAIN authentication mechanism",
}

_DISK: Final = ("disk_reads", "disk_writes")
"""Counts that the whole of RabbitMQ has; here queues are not on the disk of the node."""

_OF_ERLANG: Final = (
    *(f"io_{what}_{unit}" for what in ("read", "write") for unit in ("count", "bytes", "avg_time")),
    *("io_sync_count", "io_sync_avg_time", "io_seek_count", "io_seek_avg_time", "io_reopen_count"),
    *("mnesia_ram_tx_count", "mnesia_disk_tx_count"),
    *("msg_store_read_count", "msg_store_write_count"),
    *("queue_index_write_count", "queue_index_read_count"),
)
"""Counts of a node that Erlang alone has."""

_METRICS: Final = (
    *("connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted"),
    *("queue_deleted", "vhost_deleted", "node_node_deleted", "channel_consumer_deleted"),
)

_KHEPRI: Final = "khepri_db"
"""The one flag that a new RabbitMQ 4.0 has off: where it keeps what is declared."""

_FEATURE_FLAGS: Final = (
    "classic_mirrored_queue_version",
    "classic_queue_type_delivery_support",
    "detailed_queues_endpoint",
    "direct_exchange_routing_v2",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "feature_flags_v2",
    "implicit_default_bindings",
    "listener_records_in_ets",
    "maintenance_mode_status",
    "message_containers",
    "message_containers_deaths_v2",
    "quorum_queue",
    "quorum_queue_non_voters",
    "rabbitmq_4.0.0",
    "tracking_records_in_ets",
    "user_limits",
    "virtual_host_metadata",
)
"""The flags of RabbitMQ 4.0 whose behaviour is there."""


_STABLE: Final = frozenset(
    {
        "detailed_queues_endpoint",
        "message_containers_deaths_v2",
        "quorum_queue_non_voters",
        "rabbitmq_4.0.0",
    }
)
"""Those that a RabbitMQ 4.0 could have off."""

_DEPRECATED: Final = (
    ("amqp_address_v1", "permitted_by_default", "rabbit"),
    ("classic_queue_mirroring", "removed", "rabbit"),
    ("global_qos", "permitted_by_default", "rabbit"),
    ("management_metrics_collection", "permitted_by_default", "rabbitmq_management_agent"),
    ("queue_master_locator", "permitted_by_default", "rabbit"),
    ("ram_node_type", "permitted_by_default", "rabbit"),
    ("transient_nonexcl_queues", "permitted_by_default", "rabbit"),
)


async def overview(asked: Asked) -> Any:
    """What the server is and does."""
    api, front = asked.api, asked.front
    vhosts = asked.vhosts()
    in_queues = await api.shared.get(vhosts, "totals", lambda: totals_of(vhosts))
    rates, lengths = Range(asked.query, "msg_rates"), Range(asked.query, "lengths")
    names = [vhost.name for vhost in vhosts]
    last_ms, samples = api.counting.last_ms, api.counting.all
    messages = api.counting.everything(names)
    totals = lengths_of(in_queues.ready, in_queues.unacked, in_queues.held)
    sees_all = asked.has(MONITORS)
    open_connections = [
        one
        for one in front.server.connections
        if one.vhost is not None and (sees_all or one.user == asked.user.name)
    ]
    found: dict[str, Any] = {
        "management_version": VERSION,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600],
            "basic": [60],
            "detailed": [60],
        },
        "exchange_types": EXCHANGE_TYPES,
        "product_version": VERSION,
        "product_name": "RabbitMQ",
        "rabbitmq_version": VERSION,
        "cluster_name": cluster_name(asked),
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": "27.3.4.1",
        "erlang_full_version": f"Python {platform.python_version()}",
        "disable_stats": False,
        "default_queue_type": "classic",
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": False,
        "message_stats": with_rates(messages, (*STATS, *_DISK), samples, last_ms, rates)
        if any(messages.values())
        else {},
        "churn_rates": with_rates(
            api.counting.churned(), CHURN, api.counting.churn, last_ms, Range({}, "")
        ),
        "queue_totals": with_rates(totals, LENGTHS, samples, last_ms, lengths),
        "object_totals": {
            "channels": sum(len(one.channels) for one in open_connections),
            **({"consumers": in_queues.consumers} if sees_all else {}),
            "exchanges": sum(len(vhost.shard.vhost.router.exchanges) for vhost in vhosts),
            "queues": sum(len(vhost.shard.vhost.queues) for vhost in vhosts),
            "connections": len(open_connections),
        },
        "statistics_db_event_queue": 0,
    }
    if sees_all:
        found |= {"node": NODE, "listeners": _listeners(asked), "contexts": _contexts(asked)}
    return found


def _listeners(asked: Asked) -> list[dict[str, Any]]:
    return [
        {
            "node": NODE,
            "protocol": protocol,
            "ip_address": host,
            "port": port,
            "socket_opts": {"backlog": 1024, "nodelay": True},
        }
        for protocol, host, port in asked.api.listeners()
    ]


def _contexts(asked: Asked) -> list[dict[str, Any]]:
    return [
        {
            "ssl_opts": [],
            "node": NODE,
            "description": "RabbitMQ Management",
            "path": "/",
            "cowboy_opts": "[{sendfile,false}]",
            "ip": host,
            "port": str(port),
        }
        for protocol, host, port in asked.api.listeners()
        if protocol == "http"
    ]


def cluster_name(asked: Asked) -> str:
    """The name of the cluster, which `cluster-name` sets."""
    return str(asked.front.global_parameters().get("cluster_name", NODE))


async def get_cluster_name(asked: Asked) -> Any:
    """See `cluster_name`."""
    return {"name": cluster_name(asked)}


async def put_cluster_name(asked: Asked) -> Response:
    """Name the cluster; clients that connect from now on are told so."""
    name = asked.members().text("name")
    await asked.front.put_global_parameter("cluster_name", name, administrator_of(asked))
    asked.front.server.server_properties["cluster_name"] = name
    return done()


def _node(asked: Asked) -> dict[str, Any]:
    front = asked.front
    server = front.server
    sockets = len(server.connections)
    external = () if server.login_from is None else ("EXTERNAL",)
    mechanisms = ("AMQPLAIN", *external, "PLAIN", "ANONYMOUS")
    zero = {"rate": 0.0}
    found: dict[str, Any] = {
        "partitions": [],
        "os_pid": str(os.getpid()),
        "fd_total": 1_048_576,
        "sockets_total": 1_048_576,
        "mem_limit": server.high_mark_bytes,
        "mem_alarm": server.is_blocked,
        "disk_free_limit": 50_000_000,
        "disk_free_alarm": False,
        "proc_total": 1_048_576,
        "rates_mode": "basic",
        "uptime": max(0, front.now_ms() - front.started_ms),
        "run_queue": 1,
        "processors": os.cpu_count() or 1,
        "exchange_types": EXCHANGE_TYPES,
        "auth_mechanisms": [
            {"name": name, "description": _MECHANISMS[name], "enabled": True} for name in mechanisms
        ],
        "applications": [{"name": "rabbit", "description": "RabbitMQ", "version": VERSION}],
        "contexts": [
            {name: value for name, value in one.items() if name not in {"node", "ssl_opts"}}
            for one in _contexts(asked)
        ],
        "log_files": [],
        "db_dir": "",
        "config_files": [],
        "net_ticktime": 60,
        "enabled_plugins": ["rabbitmq_management"],
        "mem_calculation_strategy": "rss",
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
        "name": NODE,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "mem_used": memory_used(),
        "fd_used": sockets,
        "sockets_used": sockets,
        "proc_used": len(server.vhosts) + sockets,
        "disk_free": 1 << 40,
        "gc_num": 0,
        "gc_bytes_reclaimed": 0,
        "context_switches": 0,
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(_METRICS, 0),
        **dict.fromkeys(_OF_ERLANG, 0),
    }
    used = ("mem_used", "fd_used", "sockets_used", "proc_used", "disk_free")
    counted = ("gc_num", "gc_bytes_reclaimed", "context_switches")
    for name in (*used, *counted, *_OF_ERLANG):
        found[f"{name}_details"] = zero
    churned = asked.api.counting.churned()
    for name in CHURN:
        found[name] = churned[name]
        found[f"{name}_details"] = details(
            asked.api.counting.churn, name, asked.api.counting.last_ms, Range({}, "")
        )
    return found


async def nodes(asked: Asked) -> Any:
    """The one node."""
    item = _node(asked)
    if has_no_statistics(asked.query):
        item = {name: item[name] for name in ("name", "type", "running", "being_drained")}
    return await Listing(asked.query, ("name",), has_pages=False).reply([item])


async def node(asked: Asked) -> Any:
    """The node in the path; with `memory` and `binary` what takes its memory, too."""
    expect_node(asked)
    parts = {
        name: value
        for name, value in memory_parts(asked).items()
        if asked.query.get(name) == "true"
    }
    return parts | _node(asked)


async def who_am_i(asked: Asked) -> Any:
    """The user."""
    return {"name": asked.user.name, "tags": list(asked.user.tags), "is_internal_user": True}


async def auth(_asked: Asked) -> Any:
    """How to log in."""
    return {"oauth_enabled": False}


async def attempts(asked: Asked) -> Any:
    """How many logins there were; of a protocol without any, nothing."""
    expect_node(asked)
    gate, server = asked.api.gate, asked.front.server
    counts = {
        "http": (gate.attempts, gate.failures),
        "amqp091": (server.logins, server.refused_logins),
    }
    return [
        {
            "protocol": protocol,
            "auth_attempts": tried,
            "auth_attempts_failed": failed,
            "auth_attempts_succeeded": tried - failed,
        }
        for protocol, (tried, failed) in counts.items()
        if tried
    ]


async def attempts_by_source(asked: Asked) -> Any:
    """Nothing: RabbitMQ counts logins by their source only if it is told to."""
    expect_node(asked)
    return []


async def forget_attempts(asked: Asked) -> Response:
    """Count logins from zero again."""
    expect_node(asked)
    asked.api.gate.attempts = asked.api.gate.failures = 0
    asked.front.server.logins = asked.front.server.refused_logins = 0
    return done()


async def hash_password(asked: Asked) -> Any:
    """The hash of a password."""
    return {"ok": new_password_hash(asked.names["password"])}


async def log_in(asked: Asked) -> Response:
    """Check a name and a password from a form."""
    form = parse_qs(asked.body.decode("utf-8", "replace"), max_num_fields=10)
    name, password = form.get("username", [""])[0], form.get("password", [""])[0]
    asked.api.gate.log_in(name, password.encode(), asked.place)
    return as_json("ok")


async def extensions(_asked: Asked) -> Any:
    """What plugins add to RabbitMQ's pages: what the plugin of the API itself says of it."""
    return [{"javascript": "dispatcher.js"}]


async def version(_asked: Asked) -> Any:
    """The version of RabbitMQ whose behaviour this is."""
    return VERSION


async def feature_flags(asked: Asked) -> Any:
    """The feature flags of RabbitMQ 4.0 whose behaviour is there, and the one that is off."""
    return [
        _flag(_KHEPRI, "enabled" if _KHEPRI in asked.api.enabled else "disabled", "experimental"),
        *(
            _flag(name, "enabled", "stable" if name in _STABLE else "required")
            for name in _FEATURE_FLAGS
        ),
    ]


def _flag(name: str, state: str, stability: str) -> dict[str, str]:
    return {
        "name": name,
        "desc": "",
        "doc_url": "",
        "state": state,
        "stability": stability,
        "provided_by": "rabbit",
    }


async def enable_feature_flag(asked: Asked) -> Response:
    """Accept that a flag is to be on: it is, or nothing depends on it."""
    name = asked.names["name"]
    if name == _KHEPRI:
        asked.api.enabled.add(name)
    elif name not in _FEATURE_FLAGS:
        raise bad_request("unsupported")
    return done()


async def deprecated_features(_asked: Asked) -> Any:
    """Features that RabbitMQ has removed or will remove."""
    return [
        {
            "name": name,
            "desc": "",
            "deprecation_phase": phase,
            "doc_url": "",
            "provided_by": provider,
        }
        for name, phase, provider in _DEPRECATED
    ]


async def deprecated_features_used(asked: Asked) -> Any:
    """Those in use, as far as that shows in what is declared."""
    in_use = any(
        not queue.durable and not queue.exclusive
        for vhost in asked.front.server.vhosts.values()
        for queue in vhost.shard.vhost.queues.values()
    )
    features = await deprecated_features(asked)
    return [one for one in features if in_use and one["name"] == "transient_nonexcl_queues"]


async def reset_node(asked: Asked) -> Response:
    """The same of the node in the path."""
    expect_node(asked)
    return done()


async def nothing_to_do(_asked: Asked) -> Response:
    """Accept what a single node needs not do."""
    return done()


RESOURCES: Final = [
    Resource("overview", anyone, {"GET": overview}, no_range=BAD_REQUEST),
    Resource(
        "cluster-name",
        anyone,
        {"GET": get_cluster_name, "PUT": put_cluster_name},
        rules={"PUT": administrator},
    ),
    Resource("nodes", monitor, {"GET": nodes}, no_range=BAD_REQUEST),
    Resource("nodes/{node}", monitor, {"GET": node}, no_range=BAD_REQUEST),
    Resource("whoami", anyone, {"GET": who_am_i}),
    Resource("auth", anyone, {"GET": auth}, is_open=True),
    Resource("auth/attempts/{node}", monitor, {"GET": attempts, "DELETE": forget_attempts}),
    Resource(
        "auth/attempts/{node}/source",
        monitor,
        {"GET": attempts_by_source, "DELETE": forget_attempts},
    ),
    Resource(
        "auth/hash_password/{password}", administrator, {"GET": hash_password}, has_head=False
    ),
    Resource("login", anyone, {"POST": log_in}, is_open=True),
    Resource("extensions", anyone, {"GET": extensions}),
    Resource("version", anyone, {"GET": version}, is_open=True),
    Resource("feature-flags", anyone, {"GET": feature_flags}),
    Resource(
        "feature-flags/{name}/enable",
        administrator,
        {"PUT": enable_feature_flag},
        kinds=JSON_ALONE,
    ),
    Resource("deprecated-features", anyone, {"GET": deprecated_features}),
    Resource("deprecated-features/used", anyone, {"GET": deprecated_features_used}),
    Resource("rebalance/queues", administrator, {"POST": nothing_to_do}),
    Resource("reset", administrator, {"DELETE": nothing_to_do}),
    Resource("reset/{node}", administrator, {"DELETE": reset_node}),
]
