"""The dlx command: every subcommand is registered here.

A command is a function that returns an exit code (exit_codes.py); its docstring is its help text.
Slow imports (Spark, pandas, pyarrow, Kafka) belong inside the function that needs them, so that
commands without them start at once.

    job/      commands that talk to a running job through Kafka
    tables/   commands that query or rebuild the Delta tables
"""

import sys
from typing import NoReturn

import typer

from streaming.cli import config, demo, development, run, simulate, topology
from streaming.cli.exit_codes import EXIT_INVALID
from streaming.cli.job import definitions, deliveries, policies, publish
from streaming.cli.job_extra import remedy
from streaming.cli.output import escape_unencodable, flushed_output, printable_lines
from streaming.cli.tables import balance, dead_letters, maintenance, queues, sql
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
    """Exit with the code that the command returned."""
    raise typer.Exit(exit_code)


app = typer.Typer(
    name="dlx",
    help="RabbitMQ queues and dead letters as a Spark stream over Kafka and Delta Lake.",
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
app.command()(publish.publish)
app.command()(deliveries.get)
app.command()(deliveries.consume)
app.command()(deliveries.ack)
app.command()(deliveries.reject)
app.command()(balance.balance)
app.add_typer(dead_letters.app)
app.add_typer(queues.app)
app.add_typer(definitions.app)
app.add_typer(policies.app)
app.add_typer(maintenance.app)
app.add_typer(config.app)
if (development.ROOT / "tests" / "bench").is_dir():  # in a checkout; the package has no benchmarks
    from tests.bench import commands as bench

    app.add_typer(bench.app)
app.command("compile")(development.compile_core)
app.command("test")(development.run_suite)
app.command("docs")(development.build_docs)


def main() -> None:
    """Run the command line and exit; never returns."""
    escape_unencodable()
    with flushed_output():
        try:
            app(prog_name="dlx")
        except DlxError as error:
            _fail(str(error))
        except ModuleNotFoundError as error:
            what_to_do = remedy(error)
            if what_to_do is None:  # a bug
                raise
            _fail(what_to_do)
        except (PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError) as error:
            if error.filename is None:  # not about a file: a bug
                raise
            _fail(f"{error.filename}: {error.strerror}")


def _fail(text: str) -> NoReturn:
    print(printable_lines(text), file=sys.stderr)
    sys.exit(EXIT_INVALID)
