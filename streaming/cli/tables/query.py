"""`dlx query`: ask the tables in DuckDB's SQL, once or in a shell."""

import atexit
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.listing.table import WIDE_ONLY, Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, printed
from streaming.cli.options import (
    ConfigFile,
    TablesLocation,
    bounded_memory,
    locate,
    open_at,
)
from streaming.cli.output import printable_lines
from streaming.cli.tables.history import AsOf, cut_at
from streaming.user_folders import user_state_folder
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.queries.sql import Answer
    from streaming.storage.location import Location

PROMPT: Final = "dlx> "
CONTINUED: Final = "...> "
MAX_HISTORY: Final = 1000
LONG_TEXT: Final = 40
"""A column with a longer text may be cut."""

_PLAN: Final = ("explain_key", "explain_value")
_HELP: Final = """\
End a statement with ; - it may have several lines. A query sees what is committed when it starts.
.tables     the views, with their columns in `DESCRIBE name;`
.help       this text
.exit       leave, as do exit, quit and Ctrl-D"""
_LEAVING: Final = frozenset({"exit", "quit", ".exit", ".quit", "\\q"})


@printed
def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="[SQL]", help="Statements, separated by ';'. Without it: stdin, or a shell."
        ),
    ] = None,
    *,
    as_of: AsOf = None,
    view: OutputOptions,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Ask the tables in DuckDB's SQL, or open its shell.

    Each table is a view of its name: messages, events, dead_letters, queue_contents, quarantine.
    The view queued_messages adds headers and bodies to queue_contents, and foreign_dead_letters has
    what other systems' dead letters say. A query sees what is
    committed when it starts. The tables are only read, and the job need not run. A statement may
    take 4 GiB of memory.

    Exit status: 2 if a statement has a mistake.
    """
    location = locate(tables, config)
    if sql is None and sys.stdin.isatty():
        return _shell(location, view, as_of)
    text = sys.stdin.read() if sql is None else sql
    if not text.strip():
        raise typer.BadParameter("is empty: give a statement, such as 'FROM dead_letters LIMIT 5'")
    _answer(location, text, view, as_of)
    return EXIT_OK


def _answer(location: "Location", sql: str, view: OutputOptions, as_of: str | None) -> None:
    """Print the answers of statements, on what is committed now or was at an instant."""
    from streaming.queries.sql import ask, create_all_views

    with bounded_memory(), open_at(location) as opened:
        cut_at(opened, as_of)
        create_all_views(opened, sql)
        for number, answer in enumerate(ask(opened, sql)):
            if number and view.output != "json":
                print()
            _print(answer, view)


def _print(answer: "Answer", view: OutputOptions) -> None:
    if answer.columns == list(_PLAN) and view.output == "table":
        for row in answer.rows:
            print(printable_lines(row[_PLAN[1]]))
        return
    columns = tuple(_column(answer, number) for number in range(len(answer.columns)))
    print_listing(Listing(columns), answer.rows, view, nothing="no rows")


def _column(answer: "Answer", number: int) -> Column:
    """A column of an answer: the first one is always printed, the last one left out first."""
    name = answer.columns[number]
    kind: Literal["plain", "free", "instant"] = "plain"
    if name in answer.instants:
        kind = "instant"
    elif any(len(str(row[name])) > LONG_TEXT for row in answer.rows):
        kind = "free"
    return Column(name, number and WIDE_ONLY + number, kind=kind, always=True)


def _shell(location: "Location", view: OutputOptions, as_of: str | None) -> int:
    """Read statements from the terminal until the user leaves."""
    from streaming.queries.sql import create_all_views

    with open_at(location) as opened:
        cut_at(opened, as_of)
        views = create_all_views(opened)
        described = [
            name
            for one in views
            for (name, *_) in opened.values(f"DESCRIBE {one}")  # our own names
        ]
    _read_lines([*views, *described])
    print("The tables are views: .tables lists them, .help helps, Ctrl-D leaves.", file=sys.stderr)
    for statement in _statements():
        if statement == ".tables":
            print("\n".join(views))
        elif statement.startswith("."):
            print(_HELP)
        else:
            try:
                _answer(location, statement, view, as_of)
            except DlxError as error:
                print(printable_lines(str(error)), file=sys.stderr)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
            except RuntimeError as error:  # DuckDB's form of Ctrl-C
                if "interrupt" not in str(error).lower():
                    raise
                print("interrupted", file=sys.stderr)
    return EXIT_OK


def _statements() -> Iterator[str]:
    """Yield what the user enters: a command with a dot, or statements up to a semicolon."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUED if lines else PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:  # drop what was typed
            lines.clear()
            print()
            continue
        if not lines and line.strip().rstrip(";").lower() in _LEAVING:
            return
        if not lines and not line.strip():
            continue
        lines.append(line)
        if lines[0].lstrip().startswith(".") or line.rstrip().endswith(";"):
            yield "\n".join(lines).strip()
            lines.clear()


def _read_lines(words: list[str]) -> None:
    """Let the terminal edit and complete lines, and keep a history."""
    try:
        import readline
    except ImportError:  # this Python was built without it
        return
    folder = user_state_folder()
    history = folder / "query-history"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)

    def save() -> None:
        with suppress(OSError):
            readline.write_history_file(history)

    readline.set_history_length(MAX_HISTORY)
    atexit.register(save)
    known = sorted(set(words))

    def complete(text: str, state: int) -> str | None:
        found = [word for word in known if word.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
