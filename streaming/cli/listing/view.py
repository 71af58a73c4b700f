"""The options that every listing has: -o, --json, --columns, --sort and --wide."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple

import typer

Output = Literal["table", "json", "csv"]


class View(NamedTuple):
    """How to print what a command found.

    Attributes:
        columns: names as given, in that order; None: the usual ones.
        sort: name as given, and whether the largest comes first.
        wide: hide and shorten nothing.
    """

    output: Output = "table"
    columns: tuple[str, ...] | None = None
    sort: tuple[str, bool] | None = None
    wide: bool = False


_OUTPUT: Final = Annotated[
    Output | None,
    typer.Option(
        "-o", "--output", help="table for people, json (one value per line), or csv for programs."
    ),
]
_JSON: Final = Annotated[bool, typer.Option("--json", help="Short for -o json.")]
_COLUMNS: Final = Annotated[
    str | None, typer.Option("--columns", metavar="A,B", help="Show these columns, in this order.")
]
_SORT: Final = Annotated[
    str | None,
    typer.Option("--sort", metavar="COLUMN[:desc]", help="Sort by a column; :desc reverses."),
]
_WIDE: Final = Annotated[
    bool, typer.Option("--wide", help="Show every column, whatever the width of the terminal.")
]
_OPTIONS: Final = {"output": _OUTPUT, "as_json": _JSON, "columns": _COLUMNS}
_MORE: Final = {"sort": _SORT, "wide": _WIDE}
_EVERY: Final = {**_OPTIONS, **_MORE}
_DEFAULTS: Final = {"as_json": False, "wide": False}


def listing(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of a listing; it receives them as its parameter `view`."""
    return _with_options(command, _EVERY)


def record(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that shows one thing `-o`, `--json` and `--columns`, as `view`."""
    return _with_options(command, _OPTIONS)


def printed(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command whose columns are not known before `-o`, `--json` and `--wide`, as `view`."""
    return _with_options(command, {name: _EVERY[name] for name in ("output", "as_json", "wide")})


def output(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that tells a story `-o` and `--json`, as `view`."""
    return _with_options(command, {name: _EVERY[name] for name in ("output", "as_json")})


def _with_options(command: Callable[..., int], options: dict[str, Any]) -> Callable[..., int]:
    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "view":
            parameters.append(parameter)
            continue
        parameters.extend(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name),
                annotation=annotation,
            )
            for name, annotation in options.items()
        )

    @functools.wraps(command)
    def run(**given: Any) -> int:
        chosen = {name: given.pop(name) for name in options}
        return command(**given, view=_view(**chosen))

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
    return run


def _view(
    output: Output | None,
    as_json: bool,
    columns: str | None = None,
    sort: str | None = None,
    wide: bool = False,
) -> View:
    if as_json and output not in {None, "json"}:
        raise typer.BadParameter(f"contradicts -o {output}: give one of them", param_hint="--json")
    names = None
    if columns is not None:
        names = tuple(name.strip() for name in columns.split(","))
        if not all(names):
            what = f"{columns!r} has an empty name: expected names such as name,messages"
            raise typer.BadParameter(what, param_hint="--columns")
    order = None
    if sort is not None:
        name, colon, direction = sort.partition(":")
        if not name or (colon and direction not in {"asc", "desc"}):
            what = f"cannot read {sort!r}: expected COLUMN, COLUMN:asc or COLUMN:desc"
            raise typer.BadParameter(what, param_hint="--sort")
        order = (name.strip(), direction == "desc")
    return View("json" if as_json else output or "table", names, order, wide)
