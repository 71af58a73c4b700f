"""`dlx amqp` on Kafka: a front of sequenced vhosts, from its configuration to its end."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK
from streaming.cli.run.amqp import Listening, listen, run_server
from streaming.cli.run.amqp_management import (
    Listeners,
    serve_management,
)
from streaming.cli.run.amqp_metrics import serve_metrics
from streaming.cli.run.amqp_ports import CannotServeError, PortBeside
from topology.errors import InvalidDocumentError, Problem
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.amqp.login import User
    from streaming.amqp.vhosts import OpenVhost
    from streaming.config import JobConfig
    from streaming.management.pages import Address
    from streaming.sequencer.front import Front
    from streaming.sequencer.importing import Import
    from streaming.sequencer.settings import FrontSettings

_LOG_FORM: Final = "%(asctime)s %(levelname)s %(message)s"


def serve_logs(
    file: Path,
    vhosts: list[str],
    document: dict[str, Any] | None,
    listening: Listening,
    ports: tuple[int | None, int | None],
    *,
    standby: bool,
    accepts_loss: bool,
) -> int:
    """Serve sequenced vhosts until a signal; return the exit status.

    Args:
        file: the configuration.
        vhosts: those to serve; none: all.
        document: definitions to import.
        ports: of the management API and of metrics; None: that of the configuration.

    Raises:
        DlxError: it cannot start.
    """
    from streaming.config import load_config
    from streaming.config.clients import librdkafka_properties
    from streaming.job_locations import checkpoint_place
    from streaming.made_vhosts import with_made_vhosts
    from streaming.sequencer.settings import front_settings, prepare_topics

    logging.basicConfig(level=logging.INFO, format=_LOG_FORM, stream=sys.stderr)
    config = whole = load_config(file)
    if vhosts:  # one of them may have been made at run time
        whole = with_made_vhosts(config, deleted=False)
    names = chosen_vhosts(whole, vhosts)
    settings = front_settings(
        whole,
        names,
        librdkafka_properties(config.kafka, os.environ),
        checkpoint_place(config, os.environ),
        standby=standby,
        accepts_loss=accepts_loss,
    )
    imports, queue_types = _imports(whole, names, document)
    users = _users(config, document, remote_guest=listening.remote_guest)
    prepare_topics(whole, settings)
    where = _Ports(
        _management_port(config, listening.host, ports[0]),
        _metrics_port(config, listening.host, ports[1]),
    )
    return run_server(
        _serve(
            *(config, settings, imports, queue_types, users, listening, where),
            chosen=vhosts,
        )
    )


class _Ports(NamedTuple):
    """Where else a front is served; None for nowhere."""

    management: PortBeside | None
    metrics: PortBeside | None


def _management_port(config: "JobConfig", host: str, port: int | None) -> PortBeside | None:
    """Where the management API is served; None for nowhere."""
    if port is None and not config.amqp.management_port:
        return None
    chosen = config.amqp.management_port if port is None else port
    return PortBeside(host, chosen, is_asked=port is not None)


def _metrics_port(config: "JobConfig", host: str, port: int | None) -> PortBeside | None:
    """Where metrics are served; None for nowhere."""
    if port is None and not config.amqp.metrics_port:
        return None
    is_asked = port is not None
    chosen = config.amqp.metrics_port if port is None else port
    return PortBeside(host, chosen, is_asked, config.metrics.hosts)


def chosen_vhosts(config: "JobConfig", vhosts: list[str]) -> list[str]:
    """The vhosts to serve.

    Raises:
        InvalidDocumentError: there is none, or one is not sequenced.
    """
    sequenced = list(config.log_topics())
    if not sequenced:
        what = "no vhost is sequenced: set `sequenced = true` in [vhosts.NAME], or use --memory"
        raise InvalidDocumentError((Problem("vhosts", what),))
    unknown = [name for name in vhosts if name not in sequenced]
    if unknown:
        what = f"no sequenced vhost of the configuration{did_you_mean(unknown[0], sequenced)}"
        raise InvalidDocumentError((Problem(f"--vhost {unknown[0]}", what),))
    return vhosts or sequenced


def _imports(
    config: "JobConfig", vhosts: list[str], document: dict[str, Any] | None
) -> "tuple[dict[str, Import], dict[str, str]]":
    """What each vhost imports: of --definitions at each start, else of its setting at the first.

    And the type of queues that name none, where that is not `classic`.
    """
    import json

    from streaming.config.definitions_files import load_vhost_definitions
    from streaming.sequencer.importing import Import
    from topology.definitions.load import load_definitions

    load_vhost_definitions(config)  # refuses files that cannot be used
    found: dict[str, Import] = {}
    queue_types: dict[str, str] = {}
    for name in vhosts:
        path = config.vhosts[name].definitions
        said = (
            document
            if document is not None or path is None
            else json.loads(Path(path).read_bytes())
        )
        if said is None:
            continue
        loaded = load_definitions(said, default_vhost=name, compat=config.job.compat)
        if name in loaded.default_queue_types:
            queue_types[name] = loaded.default_queue_types[name]
        if document is not None:
            for problem in loaded.skipped:
                print(f"--definitions: skipped: {problem}", file=sys.stderr)
        public = {member: items for member, items in said.items() if member != "users"}
        found[name] = Import(public, only_first=document is None)  # any program may read the log
    return found, queue_types


def _users(
    config: "JobConfig", document: dict[str, Any] | None, *, remote_guest: bool
) -> "list[User]":
    """The users that files set."""
    from streaming.amqp.login import LOOPBACK_USER, User
    from streaming.amqp.memory import users_in

    users: list[User] = []
    if document is not None:
        users = users_in(document, remote_guest=remote_guest)
    known = {user.name for user in users}
    for name, settings in config.users.items():
        if settings.password_hash is not None and name not in known:
            given = {"administrator": settings.administrator, "impersonator": settings.impersonator}
            tags = tuple(tag for tag, has in given.items() if has)
            is_local = name == LOOPBACK_USER and not remote_guest
            users.append(User(name, settings.password_hash, tags=tags, loopback_only=is_local))
    return users


async def _serve(
    config: "JobConfig",
    settings: "FrontSettings",
    imports: "dict[str, Import]",
    queue_types: dict[str, str],
    users: "list[User]",
    listening: Listening,
    ports: _Ports,
    *,
    chosen: list[str],
) -> int:
    from streaming.amqp.clocks import WallClock
    from streaming.amqp.login import Users
    from streaming.amqp.server import Server
    from streaming.config.flow import MAX_ABSOLUTE_BYTES, high_mark_bytes
    from streaming.dlx_api.asking import Settings
    from streaming.dlx_api.reading import Readers
    from streaming.job_locations import tables_place
    from streaming.machine_memory import detect_memory, this_machine
    from streaming.made_vhosts import MadeVhosts
    from streaming.management.counting import Counting
    from streaming.management.logged import LogFront
    from streaming.sequencer.front import Front
    from streaming.sequencer.making import Making

    def may_open(user: "User", vhost_name: str) -> bool:
        vhost = server.vhosts[vhost_name]
        has_permissions = vhost.shard.vhost.permissions.knows(user.name)
        return has_permissions or user.name in managed.implied_in(vhost)

    def opened(vhost: "OpenVhost") -> None:
        vhost.default_queue_type = queue_types.get(vhost.name, "classic")

    known = Users(users) if users else Users.default(remote_guest=listening.remote_guest)
    mark = high_mark_bytes(config.flow.vm_memory_high_watermark, detect_memory(this_machine()))
    server = Server(
        *({}, known, may_open),
        login_from=listening.login_from,
        high_mark_bytes=mark or MAX_ABSOLUTE_BYTES,
        low_mark_fraction=config.flow.low_mark_fraction,
    )
    server.opened.append(opened)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    front = Front(settings, server, imports)
    making = Making(front, config, MadeVhosts(settings.checkpoint), chosen=chosen)
    managed = LogFront(
        *(server, WallClock().now_ms, {user.name for user in users}, making),
        lambda: _not_serving(front),
    )
    listeners: Listeners = []
    counting, api, metrics = Counting(), None, None
    place = tables_place(config, os.environ)
    readers = Readers(Settings(place.url, dict(place.options)))
    try:
        api = serve_management(
            *(ports.management, lambda: managed, listeners, counting, readers),
            console=_console(config),
        )
        metrics = serve_metrics(
            server,
            ports.metrics,
            f"{config.kafka.client_id}-amqp",
            counting=None if api is None else counting,
            logs=front.states,
            not_ready=lambda: _not_ready(front),
            max_series=config.metrics.max_series,
        )
    except CannotServeError:
        if api is not None:
            await api.stop()
        await front.stop()
        return EXIT_INVALID
    front.start()
    await making.start()
    status = await _run_front(front, stopping, listening, listeners)
    front.is_ending = True  # no request waits for a vhost any more
    if api is not None:
        await api.stop()
    await readers.stop()
    if metrics is not None:
        metrics.stop()
    await front.stop()
    if front.reason is not None:
        print(f"dlx amqp: {front.reason}", file=sys.stderr)
        status = status or EXIT_FINDINGS
    print("stopped", flush=True)
    return status


def _console(config: "JobConfig") -> "Address | None":
    """Where browsers find the console that the job serves; None if it serves none."""
    from streaming.config.metrics import split_address

    if config.console.public_url is not None:
        return config.console.public_url
    return None if config.console.listen is None else split_address(config.console.listen)


def _not_ready(front: "Front") -> str:
    if any(state.leads for state in front.states().values()):
        return ""
    return "clients cannot open any vhost here: it starts, or another front leads"


def _not_serving(front: "Front") -> str:
    """Why the management API can tell nothing; empty if it can."""
    if front.server.vhosts:
        return ""
    led = [
        f"vhost '{name}' is led by {leader.beat.name}"
        for name, topic in front.settings.logs.items()
        if (leader := front.leaders.of(name, topic)) is not None and not leader.beat.ends
    ]
    where = f": {', '.join(led)}. Ask there" if led else ""
    return f"this front serves no vhost now: it starts, or is a standby{where}"


async def _run_front(
    front: "Front", stopping: asyncio.Event, listening: Listening, listeners: Listeners
) -> int:
    """Listen when there is something to serve; return the exit status."""
    waits = [asyncio.ensure_future(each.wait()) for each in (stopping, front.ended, front.leads)]
    if front.settings.standby:
        print(f"following {', '.join(front.settings.logs.values())}", flush=True)
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not front.leads.is_set():
            return EXIT_OK if stopping.is_set() else EXIT_INVALID
        found = await listen(front.server, listening)
        if not found:
            return EXIT_INVALID
        listeners.extend(found)
        await asyncio.wait(waits[:2], return_when=asyncio.FIRST_COMPLETED)
        return EXIT_OK
    finally:
        for each in waits:
            each.cancel()
