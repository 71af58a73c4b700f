"""`dlx spark pyspark`: a Spark session in Python, with the tables of a job as views.

    dlx.toml --> the tables that exist --> `tables`, name -> location, and one temporary view each
             --> `spark`, with the pinned jars of Delta, Kafka and the storage, in this process
             --> a file, the text of --execute, stdin, or a shell

The session is local and has a JVM of its own, whatever `job.master` says.
"""

import code
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streaming.cli.exit_codes import EXIT_INVALID, EXIT_OK
from streaming.cli.options import ConfigFile, TablesLocation
from streaming.cli.tables.sql import DRIVER_MEMORY, create_views, private_folder, tables_of_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.config import JobConfig

FOR_USERS: Final = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",  # sources need names
    "spark.sql.streaming.offsetLog.formatVersion": "1",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",  # Avro knows no aggregation
}
"""Spark's defaults where the job has others, which streams of users cannot have."""

HELLO: Final = """\
spark: a Spark session with Delta and Kafka; tables: where each table is, which is also a view.
  spark.sql("SELECT queue, reason, count(*) FROM dead_letters GROUP BY ALL").show()
  spark.readStream.format("delta").option("skipChangeCommits", "true").load(tables["events"])
Ctrl-D leaves."""


def pyspark(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE [ARGUMENT]...]", help="Run a Python file, with these arguments."
        ),
    ] = None,
    *,
    execute: Annotated[
        str | None, typer.Option("--execute", "-e", metavar="PYTHON", help="Run this and exit.")
    ] = None,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Open a Spark session in Python on the tables of a job.

    `spark` is a session with the jars of Delta and Kafka, as the job has them, so that `readStream`
    works; `tables` has the location of each table. Each table is also a view of its name, and so
    are queued_messages and foreign_dead_letters, as in `dlx spark sql`. Without a file or --execute
    it reads Python from stdin, or opens Python's shell. The session is local, whatever job.master
    says, and the job need not run. Write `--` before arguments that begin with a dash.

    Exit status: 2 if the program failed or there are no tables, else the program's, or 0.
    """
    if program and execute is not None:
        raise typer.BadParameter("contradicts FILE: give one of them", param_hint="--execute")
    if program and not Path(program[0]).is_file():
        raise typer.BadParameter(f"{program[0]}: no such file", param_hint="FILE")
    found = tables_of_job(tables, config)
    if found is None:
        return EXIT_INVALID
    job, existing = found
    from streaming.spark.session import spark_url, stop_session

    locations = {name: spark_url(place) for name, place in existing.items()}
    spark = _session(job)
    for name, value in FOR_USERS.items():
        spark.conf.set(name, value)
    try:
        for statement in create_views(locations):
            spark.sql(statement.rstrip().removesuffix(";"))
        return run_python(program or [], execute, {"spark": spark, "tables": locations})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end of a JVM takes a moment
        with suppress(Exception):  # the JVM may have ended
            for query in spark.streams.active:
                query.stop()
        stop_session(spark)


def run_python(program: list[str], execute: str | None, names: Mapping[str, Any]) -> int:
    """Run a file with its arguments, a text, stdin, or a shell.

    Returns:
        0; 2 if it raised an exception, whose traceback is on stderr; what it exits with.
    """
    if not program and execute is None and sys.stdin.isatty():
        with suppress(ImportError):
            import readline
            import rlcompleter

            readline.set_completer(rlcompleter.Completer(dict(names)).complete)
            readline.parse_and_bind("tab: complete")
        console = code.InteractiveConsole({**names, "__name__": "__main__"})
        return _exit_status(lambda: console.interact(HELLO, exitmsg=""))
    if program:
        sys.argv = program
        sys.path.insert(0, str(Path(program[0]).resolve().parent))
        return _exit_status(lambda: runpy.run_path(program[0], dict(names), "__main__"))
    place, text = ("<stdin>", sys.stdin.read()) if execute is None else ("--execute", execute)
    everything = {**names, "__name__": "__main__"}
    return _exit_status(lambda: exec(compile(text, place, "exec"), everything))  # noqa: S102


def _exit_status(run: Callable[[], object]) -> int:
    """Run a user's program; its exceptions are its own, with their traceback."""
    try:
        run()
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
            return EXIT_INVALID
        return ending.code or EXIT_OK
    except Exception:  # noqa: BLE001 - whatever it is
        traceback.print_exc()
        return EXIT_INVALID
    return EXIT_OK


def _session(job: "JobConfig") -> "SparkSession":
    """Start Spark as the job does, but for its master and its folders."""
    from dataclasses import replace

    from rich.console import Console

    from streaming.spark.session import make_session, session_config

    folder = private_folder("pyspark")
    settings = replace(
        session_config(job, os.environ),
        work_dir=folder,
        log_dir=folder,
        app_name="dlx spark pyspark",
        master="local[*]",
        driver_memory=DRIVER_MEMORY,
        shuffle_partitions=None,
        executor_python=None,
        ships_packages=False,
        local_checkpoints=False,  # those of the user's streams may be anywhere
        s3_checkpoints=False,
    )
    spark = make_session(settings, Console(stderr=True))

    def cancel(*_: object) -> None:
        spark.sparkContext.cancelAllJobs()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, cancel)
    return spark
