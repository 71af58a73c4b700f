"""`dlx policies`: sets and clears policies of a running job."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import JobOptions, job_options
from streaming.cli.refusals import refuse_missing
from topology.suggestions import did_you_mean

app = command_group(
    "policies",
    "List, set and clear policies.",
    "dlx policies list",
    "dlx policies set DLX '^work' '{\"dead-letter-exchange\": \"dlx\"}' --apply-to queues",
    "dlx policies clear DLX",
)


class ApplyTo(StrEnum):
    """What a policy may apply to."""

    ALL = "all"
    QUEUES = "queues"
    EXCHANGES = "exchanges"
    CLASSIC_QUEUES = "classic_queues"
    QUORUM_QUEUES = "quorum_queues"


Name = Annotated[str, typer.Argument(metavar="NAME")]
Operator = Annotated[bool, typer.Option("--operator", help="An operator policy.")]


@app.command("set")
@job_options
def set_(
    name: Name,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A regular expression for names.")
    ],
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="A JSON object.")],
    *,
    priority: Annotated[
        int, typer.Option("--priority", help="The matching policy with the highest one applies.")
    ] = 0,
    apply_to: Annotated[
        ApplyTo | None,
        typer.Option("--apply-to", help="Default: all; queues for operator policies."),
    ] = None,
    operator: Operator = False,
    job: JobOptions,
) -> int:
    """Create or replace a policy; it takes effect at once."""
    keys = _definition(definition, operator=operator)
    with job.connect() as connection:
        connection.channel().set_policy(
            name,
            pattern,
            keys,
            priority=priority,
            apply_to=(apply_to or (ApplyTo.QUEUES if operator else ApplyTo.ALL)).value,
            operator=operator,
        )
    print(f"policy {name!r} is set in vhost {job.vhost!r}")
    return EXIT_OK


@app.command()
@job_options
def clear(
    name: Name,
    *,
    operator: Operator = False,
    job: JobOptions,
) -> int:
    """Remove a policy; its settings stop applying at once."""
    kind = "operator policy" if operator else "policy"
    with job.connect() as connection:
        section = "parameters" if operator else "policies"
        what = f"no {kind} {name!r} in vhost {job.vhost!r}"
        refuse_missing(connection, section, "name", name, what)
        connection.channel().clear_policy(name, operator=operator)
    print(f"{kind} {name!r} is removed from vhost {job.vhost!r}")
    return EXIT_OK


def _definition(text: str, *, operator: bool) -> dict[str, Any]:
    """Read a policy's definition.

    Raises:
        typer.BadParameter: it is not a JSON object, or RabbitMQ does not know one of its keys.
    """
    from topology.validation.arguments import policy_keys
    from topology.values import table_from_json

    where = "DEFINITION"
    try:
        definition = table_from_json(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError) as error:
        example = """such as '{"message-ttl": 60000}'"""
        what = f"is not a JSON object, {example}: {error}"
        raise typer.BadParameter(what, param_hint=where) from None
    known = policy_keys(operator=operator)
    unknown = [f"{key!r}{did_you_mean(key, known)}" for key in definition if key not in known]
    if unknown:
        raise typer.BadParameter(f"unknown keys: {', '.join(unknown)}", param_hint=where)
    return definition
