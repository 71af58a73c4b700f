"""The dlx command: one file a noun in this folder, registered here.

A command is a function that returns an exit code (exit_codes.py); its docstring is its help. What
is slow to import (Spark, pandas, pyarrow, Kafka) is imported inside the function that needs it, so
that the pure commands start at once.
"""

import sys

import typer

from streaming.cli import (
    balance,
    bench,
    compiling,
    config,
    consuming,
    dead_letters,
    definitions,
    demo,
    dev_test,
    policies,
    publishing,
    queues,
    run,
    simulate,
    sql,
    tables,
    topology,
)
from streaming.cli.exit_codes import EXIT_INVALID
from streaming.cli.terminal import printable_lines, survive_any_text, written_out
from topology.errors import DlxError

EXAMPLES = (
    "Examples:",
    "dlx demo --seconds 30",
    "dlx check definitions.json --strict",
    "dlx route definitions.json orders order.eu.created --header priority=1",
    "dlx diagram definitions.json --format mermaid",
    "dlx simulate examples/retry.json",
    "dlx simulate --check examples",
    "dlx dead-letters list --queue work --since 2h",
    "dlx balance",
    "dlx publish 'hello' --routing-key work",
    "dlx get work",
    "dlx definitions plan definitions.json",
    "dlx config show > dlx.toml",
    "dlx test",
)


def finish(exit_code: int, **_options: object) -> None:
    """Leave with what the command returned."""
    raise typer.Exit(exit_code)


app = typer.Typer(
    name="dlx",
    help="RabbitMQ's queues and dead letters as a Spark stream over Kafka and Delta Lake.",
    epilog="\n\n".join(EXAMPLES),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    result_callback=finish,
)


app.command()(topology.check)
app.command()(topology.route)
app.command()(topology.diagram)
app.command()(simulate.simulate)
app.command()(demo.demo)
app.command()(run.run)
app.command()(sql.sql)
app.command()(publishing.publish)
app.command()(consuming.get)
app.command()(consuming.consume)
app.command()(consuming.ack)
app.command()(consuming.reject)
app.command()(balance.balance)
app.add_typer(dead_letters.app)
app.add_typer(queues.app)
app.add_typer(definitions.app)
app.add_typer(policies.app)
app.add_typer(tables.app)
app.add_typer(config.app)
app.add_typer(bench.app)
app.command("compile")(compiling.compile_core)
app.command("test")(dev_test.run_suite)


def main() -> None:
    """Run the command line; never returns."""
    survive_any_text()
    with written_out():
        try:
            app(prog_name="dlx")
        except DlxError as error:
            print(printable_lines(str(error)), file=sys.stderr)
            sys.exit(EXIT_INVALID)
        except (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError) as error:
            if error.filename is None:  # of no file: a fault of ours
                raise
            print(printable_lines(f"{error.filename}: {error.strerror}"), file=sys.stderr)
            sys.exit(EXIT_INVALID)
