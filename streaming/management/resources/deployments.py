"""Deployments, which RabbitMQ does not have: they are noted beside the changes of the vhost."""

from typing import Final

from starlette.responses import Response

from streaming.broker import commands
from streaming.management.answers import created
from streaming.management.bodies import Members
from streaming.management.errors import bad_request
from streaming.management.resources.doing import administer
from streaming.management.routing import Asked, Resource, policymaker
from topology.declarations import too_long


async def put_deployment(asked: Asked) -> Response:
    """Note that a version of the service in the path was deployed."""
    members = asked.members()
    service, version = asked.names["service"], members.text("version")
    for text in (service, version):
        fault = too_long(text)
        if fault is not None:
            raise bad_request(f"{text[:40]!r} {fault}")
    reason = None if members.get("reason") is None else members.text("reason")
    command = commands.Deployed(
        service=service, version=version, queues=_queues(members), reason=reason
    )
    await administer(asked, asked.vhost, command)
    return created(new=True)


def _queues(members: Members) -> tuple[str, ...]:
    names = members.get("queues")
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request(["not_a_list_of_strings", "queues"])
    return tuple(names)


RESOURCES: Final = [
    Resource("deployments/{vhost}/{service}", policymaker, {"PUT": put_deployment}),
]
