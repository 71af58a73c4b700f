"""Commands of users to the broker, with its refusals as the API says them."""

import re
from typing import Any, Final

from streaming.amqp.vhosts import OpenVhost
from streaming.broker.commands import Command
from streaming.broker.events import Actor
from streaming.management.errors import (
    ApiError,
    bad_request,
    not_authorised,
    not_found,
    not_valid,
)
from streaming.management.routing import Asked
from topology.refusals import Refusal

_SHORT_INTEGER: Final = re.compile(
    r"(received the value '-?\d+' of type '|: \{unacceptable_type,|^invalid type '"
    r"|^Invalid x-match field type )signedint"
)
"""Where refusals name the type of an integer; those in JSON are `long` in RabbitMQ."""

_MAX_USER: Final = 200
_FAILED: Final = "Validation failed: "
"""How refusals of policies begin; the API writes what failed on a line of its own."""


async def do(asked: Asked, vhost: OpenVhost, command: Command) -> dict[str, Any]:
    """Carry out a command for the user, with their permissions.

    Raises:
        ApiError: the broker refuses it.
    """
    return await _done(asked, vhost, asked.actor, command)


async def administer(asked: Asked, vhost: OpenVhost, command: Command) -> dict[str, Any]:
    """Carry out a command that the user's tags allow, whatever their permissions.

    The channel names the user, so that the tables tell who it was.

    Raises:
        ApiError: the broker refuses it.
    """
    return await _done(asked, vhost, administrator_of(asked), command)


def administrator_of(asked: Asked) -> Actor:
    """Whoever administers a vhost by this request."""
    user = asked.user.name.encode(errors="replace")[:_MAX_USER].decode(errors="ignore")
    return Actor(None, f"management {user}")


async def _done(asked: Asked, vhost: OpenVhost, actor: Actor, command: Command) -> dict[str, Any]:
    answer = await asked.front.do(vhost, actor, command)
    if answer.refusal is not None:
        raise refused(answer.refusal)
    return answer.result


def refused(refusal: Refusal) -> ApiError:
    """A refusal of the broker as an answer."""
    _, _, text = refusal.text.partition(" - ")
    text = _SHORT_INTEGER.sub(r"\1long", text)
    match refusal.code:
        case 403:
            return not_authorised("Access refused.")
        case 404:
            return not_found(text)
        case _:
            kind, colon, rest = text.partition(_FAILED)
            return not_valid(rest) if colon and not kind else bad_request(text)
