"""Health checks: whether clients can be served. A failed one answers 503."""

import re
import time
from datetime import UTC, datetime
from typing import Any, Final

from streaming.amqp.certificate_files import TlsFile
from streaming.management.answers import failed
from streaming.management.errors import bad_request
from streaming.management.formats import NODE
from streaming.management.resources.messages import aliveness
from streaming.management.resources.node_memory import expect_node
from streaming.management.routing import Asked, Resource, anyone, of_vhost

_OK: Final = {"status": "ok"}
_PROTOCOLS: Final = {"amqp091": "amqp", "amqp10": "amqp"}
TLS: Final = "amqp/ssl"
"""RabbitMQ's name of AMQP over TLS."""

_DAY_S: Final = 86_400
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,9}")
_UNITS: Final = {"days": 1, "weeks": 7, "months": 365 / 12, "years": 365}


async def healthy(_asked: Asked) -> Any:
    """A check that one process cannot fail while it answers."""
    return _OK


async def healthy_node(asked: Asked) -> Any:
    """The same of the node in the path."""
    expect_node(asked)
    return _OK


async def alarms(asked: Asked) -> Any:
    """Fails while publishers are blocked for lack of memory."""
    if not asked.front.server.is_blocked:
        return _OK
    alarm = {"node": NODE, "resource": "memory"}
    return failed("There are alarms in effect in the cluster", alarms=[alarm])


async def quorum_critical(_asked: Asked) -> Any:
    """A single node is never needed by others."""
    return {"status": "ok", "reason": "single node cluster"}


async def port_listener(asked: Asked) -> Any:
    """Fails if nothing listens on the port."""
    text = asked.names["port"]
    if not text.isascii() or not text.isdecimal() or len(text) > 18:  # noqa: PLR2004 - far beyond all ports
        raise bad_request("Invalid port")
    port = int(text)
    ports = [one for _, _, one in asked.api.listeners()]
    if port in ports:
        return {"status": "ok", "port": port}
    return failed("No active listener", missing=port, ports=ports)


async def protocol_listener(asked: Asked) -> Any:
    """Fails if nothing listens for the protocol."""
    name = asked.names["protocol"]
    protocols = [one for one, _, _ in asked.api.listeners()]
    wanted = _PROTOCOLS.get(name.lower(), name.lower())
    if wanted in protocols:
        return {"status": "ok", "protocol": wanted}
    return failed("No active listener", missing=wanted, protocols=protocols)


async def certificates(asked: Asked) -> Any:
    """Fails if a certificate that the server uses for TLS ends within the time in the path."""
    within, unit = asked.names["within"], asked.names["unit"].lower()
    if not _WHOLE.fullmatch(within):
        raise bad_request("Invalid expiration value.")
    if unit not in _UNITS:
        raise bad_request(f"Time unit not recognised. Supported units: {', '.join(_UNITS)}.")
    files = asked.front.server.tls_files
    if files is None:
        return _OK
    until_s = time.time() + int(within) * _UNITS[unit] * _DAY_S
    ending, ca_ending = _ending(files.certificate, until_s), _ending(files.ca, until_s)
    if not ending and not ca_ending:
        return _OK
    expired = [
        {
            "node": NODE,
            "protocol": protocol,
            "interface": host,
            "port": port,
            "certfile": files.certificate.path,
            "cacertfile": "" if files.ca is None else files.ca.path,
            "certfile_expires_on": ending,
            "cacertfile_expires_on": ca_ending,
        }
        for protocol, host, port in asked.api.listeners()
        if protocol == TLS
    ]
    return failed("Certificates expiring", expired=expired)


def _ending(file: TlsFile | None, until_s: float) -> list[str]:
    """When the certificates in a file end that do so before an instant."""
    ends = () if file is None else file.ends_s
    return [
        f"{datetime.fromtimestamp(end_s, UTC):%Y-%m-%d %-H:%M:%S}"
        for end_s in ends
        if end_s < until_s
    ]


RESOURCES: Final = [
    Resource("health/checks/alarms", anyone, {"GET": alarms}),
    Resource("health/checks/local-alarms", anyone, {"GET": alarms}),
    Resource("health/checks/virtual-hosts", anyone, {"GET": healthy}),
    Resource("health/checks/node-is-quorum-critical", anyone, {"GET": quorum_critical}),
    Resource("health/checks/port-listener/{port}", anyone, {"GET": port_listener}),
    Resource("health/checks/protocol-listener/{protocol}", anyone, {"GET": protocol_listener}),
    Resource("health/checks/certificate-expiration/{within}/{unit}", anyone, {"GET": certificates}),
    Resource("health/checks/is-in-service", anyone, {"GET": healthy}),
    Resource("health/checks/ready-to-serve-clients", anyone, {"GET": healthy}),
    Resource("healthchecks/node", anyone, {"GET": healthy}),
    Resource("healthchecks/node/{node}", anyone, {"GET": healthy_node}),
    Resource("aliveness-test/{vhost}", of_vhost, {"GET": aliveness}),
]
