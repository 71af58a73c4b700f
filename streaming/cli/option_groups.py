"""Gives a command a group of options, which it receives as one parameter.

def command(queue: str, *, job: JobOptions) -> int      what is written
dlx command QUEUE --config FILE --user NAME ...         what the user sees
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_type_hints

Command = Callable[..., int]


class Option(NamedTuple):
    """An option as typer reads it: its annotation, and the value if it is not given."""

    annotation: Any
    default: object = None


def options_of(group: Callable[..., Any]) -> dict[str, Option]:
    """The parameters of a function as options."""
    hints = get_type_hints(group, include_extras=True)
    return {
        name: Option(hints[name], parameter.default)
        for name, parameter in inspect.signature(group).parameters.items()
    }


def with_options(
    command: Command, parameter: str, options: Mapping[str, Option], group: Callable[..., Any]
) -> Command:
    """Replace a parameter of a command by options, at its place in the help.

    Args:
        options: by name.
        group: makes the value of the parameter; it receives the value of each option by name.
    """
    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if each.name != parameter:
            parameters.append(each)
            continue
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
            for name, option in options.items()
        ]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        chosen = {name: given.pop(name) for name in options}
        return command(**given, **{parameter: group(**chosen)})

    # A function has no declared attribute __signature__; inspect reads it, and so does typer.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
    return run
