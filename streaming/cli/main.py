"""The dlx command: every subcommand is registered here.

A command is a function that returns an exit code (exit_codes.py); its docstring is its help text.
Slow imports (Spark, pandas, pyarrow, Kafka) belong inside the function that needs them, so that
commands without them start at once. For the same reason only the module of the command that the
user typed is imported.

    topology/   commands that ask a definitions file
    run/        commands that configure, run and reset a job
    doctor/     the checks of a machine and a job
    job/        commands that talk to a running job through Kafka
    dead_letters/ commands that list, show, group and export dead letters
    tables/     commands that query or rebuild the Delta tables
    develop/    commands for the developers of dlx itself
    listing/    the tables that commands print
"""

import codecs
import errno
import locale
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.exceptions import TyperException

from streaming.cli.command_group import (
    COMPLETION_VARIABLE,
    PROGRAM,
    ROOT,
    CommandGroup,
    usage_line,
)
from streaming.cli.exit_codes import EXIT_INTERRUPTED, EXIT_INVALID
from streaming.cli.job_extra import remedy
from streaming.cli.output import escape_unencodable, flushed_output, printable_lines
from streaming.storage.port import StoreError
from topology.errors import DlxError

DEVELOP: Final = "Develop dlx"
"""A section of commands that the help names in one line: a checkout has them."""

EARLIER: Final = "Earlier names"
"""Commands that are in a group now, and keep the name that they had."""

COMMANDS: Final[dict[str, dict[str, str]]] = {
    "Ask a definitions file": {
        "check": "topology.commands:check",
        "route": "topology.commands:route",
        "diagram": "topology.commands:diagram",
        "simulate": "topology.simulate:simulate",
    },
    "Run a job": {
        "demo": "run.demo:demo",
        "run": "run.command:run",
        "amqp": "run.amqp:app",
        "kafka": "run.kafka:kafka",
        "config": "run.config:app",
        "doctor": "doctor.command:app",
        "console": "run.console:console",
        "reset": "run.reset:reset",
    },
    "Talk to a running job": {
        "publish": "job.publish:publish",
        "get": "job.deliveries:get",
        "consume": "job.deliveries:consume",
        "ack": "job.deliveries:ack",
        "reject": "job.deliveries:reject",
        "definitions": "tables.what_if:definitions",
        "deployed": "job.deployed:deployed",
    },
    "Query the tables": {
        "overview": "tables.overview:overview",
        "queues": "tables.queues:app",
        "exchanges": "tables.vhost_objects:exchanges",
        "bindings": "tables.vhost_objects:bindings",
        "policies": "tables.vhost_objects:policies",
        "permissions": "tables.vhost_objects:permissions",
        "clients": "tables.vhost_objects:clients",
        "quarantine": "tables.quarantine:app",
        "why": "tables.why:why",
        "dead-letters": "dead_letters.command:app",
        "redrives": "tables.redrives:app",
        "balance": "tables.balance:balance",
        "tables": "tables.maintenance:app",
        "query": "tables.query:query",
        "spark": "tables.spark:app",
    },
    EARLIER: {
        "checkpoint": "run.checkpoint:app",
    },
    DEVELOP: {
        "bench": "tests.bench.commands:app",
        "test": "develop.commands:run_suite",
        "docs": "develop.commands:build_docs",
    },
}
"""Section of the help -> command -> its function or group, as module:name in streaming.cli."""

EPILOG: Final = "Also: dlx COMMAND --help, dlx --version. In a checkout: test, docs, bench."


def build_app(names: Iterable[str] | None = None) -> typer.Typer:
    """Build the command line.

    Args:
        names: only these commands; without it all of them.
    """
    app = typer.Typer(
        name=PROGRAM,
        cls=_Root,
        help="RabbitMQ's queues and dead letters on Kafka, Spark and Delta Lake.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_options)
    for section, commands in COMMANDS.items():
        for name, place in commands.items():
            if (names is None or name in names) and _is_here(place):
                _register(app, name, place, section)
    return app


class _Root(CommandGroup):
    order = tuple(name for commands in COMMANDS.values() for name in commands)
    unlisted = frozenset({DEVELOP, EARLIER})


def _show_version(wanted: bool) -> None:
    if wanted:
        from streaming.cli.completion import version_line

        print(version_line(ROOT))
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_show_version,
            help="Show the version and exit.",
            hidden=True,  # the last line of the help names it: so the help fits a screen
        ),
    ] = False,
) -> None:
    """Take the options that precede a command."""


def _is_here(place: str) -> bool:
    """Whether a command exists: the package has no benchmarks, a checkout has."""
    return not place.startswith("tests.") or (ROOT / "tests" / "bench").is_dir()


def _register(app: typer.Typer, name: str, place: str, section: str) -> None:
    module, _, attribute = place.partition(":")
    package = "" if place.startswith("tests.") else "streaming.cli."
    command: Any = getattr(import_module(package + module), attribute)
    if section == DEVELOP:
        command = _with_tools(command)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, cls=CommandGroup, rich_help_panel=section)
    else:
        app.command(name, rich_help_panel=section)(command)


def _with_tools(command: Any) -> Any:
    """Let a command for developers, or those of a group, install what it needs when it runs."""
    from streaming.cli.develop.tools import with_tools

    if not isinstance(command, typer.Typer):
        return with_tools(command, ROOT)
    for one in command.registered_commands:
        if one.callback is not None:
            one.callback = with_tools(one.callback, ROOT)
    return command


def _needed(arguments: list[str]) -> list[str] | None:
    """Return the commands that a command line needs; None for all: help, completion, a mistake."""
    if COMPLETION_VARIABLE in os.environ:
        return None
    known = {name for commands in COMMANDS.values() for name in commands}
    first = arguments[:1]
    return first if (known.issuperset(first) and first) or first == ["--version"] else None


def main() -> None:
    """Run the command line and exit; never returns."""
    escape_unencodable()
    _let_children_name_files()
    _refuse_bytes(sys.argv[1:])
    with flushed_output():
        try:
            sys.exit(_run(sys.argv[1:]))
        except TyperException as error:
            _fail(usage_line(error, "".join(sys.argv[1:2])))
        except DlxError as error:
            code = error.help_code
            _fail(f"{error} (dlx doctor explain {code})" if code else str(error))
        except StoreError as error:
            _fail(str(error))
        except ModuleNotFoundError as error:
            what_to_do = remedy(error)
            if what_to_do is None:  # a bug
                raise
            _fail(what_to_do)
        except OSError as error:
            if error.filename is None and error.errno != errno.EIO:  # not about a file: a bug
                raise
            _fail(f"{error.filename or 'a file'}: {error.strerror}")
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)


def _let_children_name_files() -> None:
    """Let a JVM find files whose names ASCII cannot spell.

    It takes their encoding from the locale, which may be `C`, or one that this machine lacks.
    Python does the same for its children, unless LC_ALL is set (PEP 538).
    """
    if "LC_ALL" in os.environ and codecs.lookup(locale.getencoding()).name == "ascii":
        os.environ["LC_ALL"] = "C.UTF-8"


def _refuse_bytes(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: only a file may have such a name."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.lexists(argument) and not os.path.lexists(argument.partition("=")[2]):
                _fail(f"{PROGRAM}: argument {number}, {argument!a}, is not UTF-8, nor a file")


def _run(arguments: list[str]) -> Any:
    """Run a command and return its exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from typer.completion import (  # type: ignore[attr-defined] # typer exports nothing
            completion_init,
        )

        completion_init()
    command = typer.main.get_command(build_app(_needed(arguments)))
    try:
        return command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
    except (ImportError, RuntimeError) as error:
        if not _is_interrupt(error):
            raise
        raise KeyboardInterrupt from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether this is Ctrl-C, in the words of DuckDB or of a module that was being loaded."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt)
        or (isinstance(error, RuntimeError) and "interrupted" in str(error).lower())
        or _is_interrupt(error.__cause__)
    )


def _fail(text: str) -> NoReturn:
    print(printable_lines(text), file=sys.stderr)
    sys.exit(EXIT_INVALID)
