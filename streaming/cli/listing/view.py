"""The options that every listing has: -o, --json, --columns, --sort and --wide."""

from typing import Annotated, Final, Literal, NamedTuple

import typer

from streaming.cli.option_groups import Command, Option, with_options

Output = Literal["table", "json", "csv"]


class OutputOptions(NamedTuple):
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


_OUTPUT: Final = Option(
    Annotated[
        Output | None,
        typer.Option(
            "-o",
            "--output",
            help="table for people, json (one value per line), or csv for programs.",
        ),
    ]
)
_JSON: Final = Option(Annotated[bool, typer.Option("--json", help="Short for -o json.")], False)
_COLUMNS: Final = Option(
    Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Show these columns, in this order."),
    ]
)
_SORT: Final = Option(
    Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN[:desc]", help="Sort by a column; :desc reverses."),
    ]
)
_WIDE: Final = Option(
    Annotated[
        bool, typer.Option("--wide", help="Show every column, whatever the width of the terminal.")
    ],
    False,
)
_FORMAT: Final = {"output": _OUTPUT, "as_json": _JSON}
_RECORD: Final = {**_FORMAT, "columns": _COLUMNS}


def listing(command: Command) -> Command:
    """Give a command the options of a listing; it receives them as its parameter `view`."""
    return with_options(command, "view", {**_RECORD, "sort": _SORT, "wide": _WIDE}, _view)


def record(command: Command) -> Command:
    """Give a command that shows one thing `-o`, `--json` and `--columns`, as `view`."""
    return with_options(command, "view", _RECORD, _view)


def printed(command: Command) -> Command:
    """Give a command whose columns are not known before `-o`, `--json` and `--wide`, as `view`."""
    return with_options(command, "view", {**_FORMAT, "wide": _WIDE}, _view)


def output(command: Command) -> Command:
    """Give a command that tells a story `-o` and `--json`, as `view`."""
    return with_options(command, "view", _FORMAT, _view)


def _view(
    output: Output | None,
    as_json: bool,
    columns: str | None = None,
    sort: str | None = None,
    wide: bool = False,
) -> OutputOptions:
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
    return OutputOptions("json" if as_json else output or "table", names, order, wide)
