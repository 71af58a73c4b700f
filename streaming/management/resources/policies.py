"""Policies and operator policies."""

from html import unescape
from typing import Any, Final

from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done
from streaming.management.bodies import Members
from streaming.management.errors import ApiError, missing, not_valid, term
from streaming.management.formats import policy_item
from streaming.management.listing import Listing
from streaming.management.policy_keys import check_inert_keys
from streaming.management.resources.doing import administer
from streaming.management.routing import (
    JSON_ALONE,
    Asked,
    Resource,
    administrator,
    anyone,
    of_vhost,
    policymaker,
)
from topology.declarations import Policy


def policies_of(vhost: OpenVhost, *, operator: bool) -> list[Policy]:
    """The policies of a vhost, by name."""
    return vhost.shard.vhost.policies.policies(operator=operator)


def read_policy(name: str, members: Members) -> Policy:
    """The policy that a request describes.

    Raises:
        ApiError: 400, it cannot be used.
    """
    members.need("pattern", "definition")
    definition = members.table("definition")
    if not definition:
        raise not_valid("no policy provided")
    priority = members.document.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise not_valid(f"priority should be a number, actually was {term(priority)}")
    applies = members.document.get("apply-to", "all")
    is_word = applies is None or isinstance(applies, bool)  # RabbitMQ takes it for its name
    apply_to = term(applies) if is_word else members.text("apply-to", "all")
    pattern = members.get("pattern")
    if not isinstance(pattern, str):
        raise not_valid(f"pattern should be a binary but was {term(pattern)}")
    return Policy(name, pattern, definition, priority, apply_to)


async def set_policy(asked: Asked, vhost: OpenVhost, policy: Policy, *, operator: bool) -> None:
    """Put a policy in force; ApiError 400 if it is not valid."""
    if vhost.config.compat == "4.0":
        check_inert_keys(policy, operator=operator)
    kind = commands.SetOperatorPolicy if operator else commands.SetPolicy
    await administer(asked, vhost, kind(policy=policy))


class _Policies:
    """The resources of one of the two kinds."""

    def __init__(self, *, operator: bool) -> None:
        self._operator = operator

    def _of(self, vhost: OpenVhost) -> list[Policy]:
        return policies_of(vhost, operator=self._operator)

    async def all(self, asked: Asked) -> Any:
        """The policies of the vhost in the path, or of all that the user sees."""
        items = [
            policy_item(vhost.name, policy)
            for vhost in asked.one_or_all()
            for policy in self._of(vhost)
        ]
        return await Listing(asked.query, has_pages=False).reply(items)

    async def one(self, asked: Asked) -> Any:
        """A policy."""
        for policy in self._of(asked.vhost):
            if policy.name == asked.names["name"]:
                return policy_item(asked.vhost.name, policy)
        raise missing()

    async def put(self, asked: Asked) -> Response:
        """Set a policy."""
        vhost, name = asked.vhost, asked.names["name"]
        new = all(one.name != name for one in self._of(vhost))
        try:
            policy = read_policy(name, asked.members())
            await set_policy(asked, vhost, policy, operator=self._operator)
        except ApiError as error:
            if self._operator and isinstance(error.reason, str):
                error.reason = unescape(error.reason)  # as RabbitMQ says it of these alone
            raise
        return created(new=new)

    async def delete(self, asked: Asked) -> Response:
        """Remove a policy."""
        await self.one(asked)
        kind = commands.ClearOperatorPolicy if self._operator else commands.ClearPolicy
        await administer(asked, asked.vhost, kind(name=asked.names["name"]))
        return done()


_ordinary, _operator = _Policies(operator=False), _Policies(operator=True)

RESOURCES: Final = [
    Resource("policies", anyone, {"GET": _ordinary.all}),
    Resource("policies/{vhost}", of_vhost, {"GET": _ordinary.all}),
    Resource(
        "policies/{vhost}/{name}",
        policymaker,
        {"GET": _ordinary.one, "PUT": _ordinary.put, "DELETE": _ordinary.delete},
    ),
    Resource("operator-policies", anyone, {"GET": _operator.all}),
    Resource("operator-policies/{vhost}", of_vhost, {"GET": _operator.all}),
    Resource(
        "operator-policies/{vhost}/{name}",
        administrator,
        {"GET": _operator.one, "PUT": _operator.put, "DELETE": _operator.delete},
        kinds=JSON_ALONE,
    ),
]
