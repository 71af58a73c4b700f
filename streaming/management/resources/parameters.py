"""Parameters, which hold policies and limits, global parameters, and the limits of vhosts.

Parameters of plugins, such as shovels and federation, belong to no component that is there.
"""

from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec
from starlette.responses import Response

from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.broker.commands import LimitName
from streaming.management.access import MONITORS
from streaming.management.answers import created, done
from streaming.management.bodies import Members, expect_shallow
from streaming.management.errors import ApiError, bad_request, missing, not_found, not_valid, term
from streaming.management.formats import policy_item
from streaming.management.listing import Listing
from streaming.management.resources.doing import administer, administrator_of
from streaming.management.resources.policies import policies_of, read_policy, set_policy
from streaming.management.routing import (
    JSON_ALONE,
    Asked,
    Resource,
    administrator,
    any_policymaker,
    anyone,
    policymaker,
    visible_vhost,
)
from topology.declarations import Policy

VHOST_LIMITS: Final = "vhost-limits"
LIMITS: Final = "limits"
"""The name of the one parameter that holds the limits of a vhost."""

OPERATOR_POLICY: Final = "operator_policy"
POLICY: Final = "policy"
_LIMITS: Final[tuple[str, ...]] = get_args(LimitName)
_KEYS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    VHOST_LIMITS: (_LIMITS, ()),
    OPERATOR_POLICY: (
        ("pattern", "definition", "priority", "apply-to"),
        ("definition", "pattern", "priority"),
    ),
}
"""What the value of a parameter may have, and what it must, by its component."""


def limits_of(vhost: OpenVhost) -> dict[str, int]:
    """The limits of a vhost, by name."""
    return dict(msgspec.to_builtins(vhost.shard.vhost.limits))


def _policy_parameter(vhost: OpenVhost, component: str, policy: Policy) -> dict[str, Any]:
    value = policy_item(vhost.name, policy)
    del value["vhost"], value["name"]
    return {"value": value, "vhost": vhost.name, "component": component, "name": policy.name}


def parameters_of(vhost: OpenVhost, component: str | None) -> list[dict[str, Any]]:
    """The parameters of a vhost: of one component, or of all but policies."""
    found = []
    if component in {None, VHOST_LIMITS} and limits_of(vhost):
        found.append(
            {
                "value": limits_of(vhost),
                "vhost": vhost.name,
                "component": VHOST_LIMITS,
                "name": LIMITS,
            }
        )
    if component in {None, OPERATOR_POLICY}:
        found += [
            _policy_parameter(vhost, OPERATOR_POLICY, policy)
            for policy in policies_of(vhost, operator=True)
        ]
    if component == POLICY:
        found += [
            _policy_parameter(vhost, POLICY, policy)
            for policy in policies_of(vhost, operator=False)
        ]
    return found


async def all_parameters(asked: Asked) -> Any:
    """The parameters of the component and vhost in the path, or of all."""
    component = asked.names.get("component")
    items = [one for vhost in asked.one_or_all() for one in parameters_of(vhost, component)]
    return await Listing(asked.query, ("vhost", "component", "name"), has_pages=False).reply(items)


async def one_parameter(asked: Asked) -> Any:
    """A parameter."""
    for one in parameters_of(asked.vhost, asked.names["component"]):
        if one["name"] == asked.names["name"]:
            return one
    raise missing()


async def put_parameter(asked: Asked) -> Response:
    """Set a parameter."""
    vhost, members = asked.vhost, asked.members()
    members.need("value")
    component, name = asked.names["component"], asked.names["name"]
    before = parameters_of(vhost, component)
    await set_parameter(asked, vhost, component, name, members.get("value"))
    return created(new=all(one["name"] != name for one in before))


async def set_parameter(
    asked: Asked, vhost: OpenVhost, component: str, name: str, value: Any
) -> None:
    """Set a parameter; ApiError 400 if there is no such component, or the value is not valid."""
    if component == POLICY:
        raise bad_request("policies may not be set using this method")
    if component not in {VHOST_LIMITS, OPERATOR_POLICY}:
        raise not_valid(f"component {component} not found")
    if component == VHOST_LIMITS and name != LIMITS:
        raise not_valid(f"the limits of a vhost are named {LIMITS}, not {name}")
    if value == []:
        value = {}
    if not isinstance(value, dict | list):
        raise not_valid(f"{name} not a list {term(value)}")
    known, needed = _KEYS[component]
    unknown = [
        f"{{{term(key)},{term(value[key])}}}" if isinstance(value, dict) else term(key)
        for key in value
        if key not in known
    ]
    faults = [f"Unrecognised terms [{','.join(unknown)}] in {name}"] if unknown else []
    faults += [f'Key "{key}" not found in {name}' for key in needed if key not in value]
    if faults or not isinstance(value, dict):
        raise not_valid("\n".join(faults))
    if component == OPERATOR_POLICY:
        policy = read_policy(name, Members(value))
        await set_policy(asked, vhost, policy, operator=True)
        return
    for limit, number in value.items():
        check_limit(limit, number, not_valid)
    for limit in _LIMITS:
        if limit in value:
            await administer(
                asked,
                vhost,
                commands.SetVhostLimit(limit=limit, value=value[limit]),  # type: ignore[arg-type] # one of them
            )
        else:
            await administer(asked, vhost, commands.ClearVhostLimit(limit=limit))  # type: ignore[arg-type] # the same


async def clear_limits(asked: Asked, vhost: OpenVhost) -> None:
    """Remove the limits of a vhost."""
    if limits_of(vhost):
        await set_parameter(asked, vhost, VHOST_LIMITS, LIMITS, {})


async def delete_parameter(asked: Asked) -> Response:
    """Remove a parameter."""
    await one_parameter(asked)
    component, name = asked.names["component"], asked.names["name"]
    if component == OPERATOR_POLICY:
        await administer(asked, asked.vhost, commands.ClearOperatorPolicy(name=name))
    elif component == POLICY:
        raise bad_request("policies may not be cleared using this method")
    else:
        await clear_limits(asked, asked.vhost)
    return done()


# -- limits of vhosts


def _plain(reason: str) -> ApiError:
    """As `not_valid`, without escapes."""
    return bad_request(f"Validation failed\n\n{reason}\n")


def check_limit(name: str, value: Any, error: Callable[[str], ApiError] = _plain) -> None:
    """400 unless a limit is known and its value a number."""
    if name not in _LIMITS:
        raise error(f'Unrecognised terms [{{<<"{name}">>,{term(value)}}}] in limits')
    if not isinstance(value, int) or isinstance(value, bool):
        raise error(f"{name} should be a number, actually was {term(value)}")
    if not -1 <= value <= 1 << 31:
        raise error(f"{name} is out of range")


async def all_limits(asked: Asked) -> Any:
    """The limits of the vhost in the path, or of all that the user sees."""
    items = [
        {"value": limits_of(vhost), "vhost": vhost.name}
        for vhost in asked.one_or_all(MONITORS)
        if limits_of(vhost)
    ]
    return await Listing(asked.query, ("vhost",), has_pages=False, has_columns=False).reply(items)


async def put_limit(asked: Asked) -> Response:
    """Set a limit of a vhost."""
    vhost, members = asked.vhost, asked.members()
    members.need("value")
    name, value = asked.names["name"], members.get("value")
    check_limit(name, value)
    await administer(asked, vhost, commands.SetVhostLimit(limit=name, value=value))  # type: ignore[arg-type] # it was checked
    return done()


async def delete_limit(asked: Asked) -> Response:
    """Remove a limit of a vhost."""
    vhost = asked.front.server.vhosts.get(asked.names["vhost"])
    if vhost is None:
        raise not_found("vhost_not_found")
    if asked.names["name"] in _LIMITS:
        await administer(asked, vhost, commands.ClearVhostLimit(limit=asked.names["name"]))  # type: ignore[arg-type] # it was checked
    return done()


# -- global parameters


async def all_global(asked: Asked) -> Any:
    """The global parameters."""
    items = [
        {"name": name, "value": value} for name, value in asked.front.global_parameters().items()
    ]
    return await Listing(asked.query, ("name",), has_pages=False).reply(items)


async def one_global(asked: Asked) -> Any:
    """A global parameter."""
    found = asked.front.global_parameters()
    name = asked.names["name"]
    if name not in found:
        raise missing()
    return {"value": found[name], "name": name}


async def put_global(asked: Asked) -> Response:
    """Set a global parameter."""
    members = asked.members()
    members.need("value")
    new = await set_global(asked, asked.names["name"], members.get("value"))
    return created(new=new)


async def set_global(asked: Asked, name: str, value: Any) -> bool:
    """Set a global parameter; whether it is new. RabbitMQ keeps an empty object as an array."""
    expect_shallow(value)
    kept = [] if value == {} else value
    return await asked.front.put_global_parameter(name, kept, administrator_of(asked))


async def delete_global(asked: Asked) -> Response:
    """Remove a global parameter."""
    name = asked.names["name"]
    if not await asked.front.delete_global_parameter(name, administrator_of(asked)):
        raise missing()
    return done()


def _may_set(asked: Asked) -> str | None:
    """Policymakers; administrators alone if it is an operator policy, as at its own path."""
    is_operator_policy = asked.names["component"] == OPERATOR_POLICY
    return policymaker(asked) or (administrator(asked) if is_operator_policy else None)


RESOURCES: Final = [
    Resource("parameters", any_policymaker, {"GET": all_parameters}),
    Resource("parameters/{component}", any_policymaker, {"GET": all_parameters}),
    Resource("parameters/{component}/{vhost}", policymaker, {"GET": all_parameters}),
    Resource(
        "parameters/{component}/{vhost}/{name}",
        policymaker,
        {"GET": one_parameter, "PUT": put_parameter, "DELETE": delete_parameter},
        rules={"PUT": _may_set, "DELETE": _may_set},
    ),
    Resource("global-parameters", any_policymaker, {"GET": all_global}),
    Resource(
        "global-parameters/{name}",
        any_policymaker,
        {"GET": one_global, "PUT": put_global, "DELETE": delete_global},
    ),
    Resource("vhost-limits", anyone, {"GET": all_limits}, has_head=False),
    Resource("vhost-limits/{vhost}", visible_vhost, {"GET": all_limits}, has_head=False),
    Resource(
        "vhost-limits/{vhost}/{name}",
        administrator,
        {"PUT": put_limit, "DELETE": delete_limit},
        kinds=JSON_ALONE,
    ),
]
