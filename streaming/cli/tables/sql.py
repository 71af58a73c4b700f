"""`dlx spark sql`: Spark's own SQL shell, with the tables of a job as views.

    dlx.toml --> the tables that exist --> one temporary view each
             --> Spark's shell, with the pinned jars, a working Java and Delta's settings

The settings of the shell are in files that only this user can read, because they may hold secrets.
The files are deleted when the shell ends. The shell has a JVM of its own, not the job's.
"""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_INVALID, EXIT_OK
from streaming.cli.options import ConfigFile, TablesLocation, find_config

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.embedded.jvm.java import Java
    from streaming.spark.scratch import Scratch

DRIVER_MEMORY: Final = "1g"


def sql(
    *,
    execute: Annotated[
        str | None,
        typer.Option(
            "--execute", "-e", metavar="SQL", help="Run statements, separated by ';', and exit."
        ),
    ] = None,
    tables: TablesLocation = None,
    config: ConfigFile = None,
) -> int:
    """Open Spark's SQL shell on the tables of a job.

    Each table is a view of its name: messages, events, dead_letters, queue_contents, quarantine.
    The view queued_messages adds headers and bodies to queue_contents, and foreign_dead_letters has
    what other systems' dead letters say. A query sees what is
    committed when it starts. The job need not run. `exit;` ends the shell; it also reads statements
    from stdin.

    Exit status: 2 if a statement of --execute failed or there are no tables, else 0.
    """
    found = tables_of_job(tables, config)
    if found is None:
        return EXIT_INVALID
    arguments = () if execute is None else ("-e", execute)
    return EXIT_OK if run_shell(*found, arguments) == 0 else EXIT_INVALID


def tables_of_job(
    tables: str | None, config: Path | None
) -> "tuple[JobConfig, dict[str, str]] | None":
    """The job of the options, and its tables; None if there are none, which stderr says.

    Raises:
        DlxError: there is no configuration, or it is invalid.
    """
    from attrs import evolve

    from streaming.config import JobConfig, load_config

    place = "--tables"
    if tables is None or config is not None:
        file = find_config(config)
        job = load_config(file)
        place = f"{file}: job.tables_location"
    else:
        job = JobConfig()
    if tables is not None:
        job = evolve(job, job=evolve(job.job, tables_location=tables))
    existing = existing_tables(job)
    if not existing:
        print(
            f"{place}: {job.job.tables_location} has no tables; `dlx run` creates them",
            file=sys.stderr,
        )
        return None
    return job, existing


def private_folder(name: str) -> Path:
    """A folder of this user for temporary files, which nobody else can have made.

    Raises:
        EmbeddedError: somebody else has it.
    """
    from streaming.embedded.errors import EmbeddedError

    folder = Path(tempfile.gettempdir()) / f"dlx-{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise EmbeddedError(
            f"{folder}: others may write there, and temporary files may hold secrets. Remove it, "
            "or set TMPDIR to a folder of your own."
        )
    return folder


def existing_tables(config: "JobConfig") -> dict[str, str]:
    """Return name -> path or URL of the tables that exist."""
    from deltalake import DeltaTable

    from streaming.job_locations import tables_place
    from streaming.ledger.schema.schemas import TABLES

    root = tables_place(config, os.environ)
    places = {name: (root / name).url for name in TABLES}
    options = dict(root.options)
    return {name: url for name, url in places.items() if DeltaTable.is_deltatable(url, options)}


def run_shell(config: "JobConfig", tables: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Run the shell with this process's stdin, stdout and stderr.

    Returns:
        Its exit status; 0 is success.

    Raises:
        EmbeddedError: no Java or no jars were found, or its folder is not this user's.
        InvalidConfigError: a secret cannot be found.
    """
    import pyspark

    from streaming.embedded.jvm.java import find_java, properties_text, spark_java_home
    from streaming.spark.scratch import Scratch

    java = find_java()
    spark_home = Path(pyspark.__file__).parent
    scratch = Scratch.make(private_folder("sql"))
    try:
        for name in ("spark", "tmp", "conf"):
            scratch.folder(name)
        properties = scratch.path / "sql.properties"
        properties.write_text(properties_text(shell_settings(config, scratch, java)), "utf-8")
        views = scratch.path / "views.sql"
        views.write_text("".join(create_views(tables)), "utf-8")
        environment = {
            **{name: text for name, text in os.environ.items() if name != "SPARK_LOCAL_DIRS"},
            "JAVA_HOME": str(spark_java_home(java)),
            "SPARK_HOME": str(spark_home),
            "SPARK_CONF_DIR": str(scratch.path / "conf"),  # empty: only our defaults apply
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        files = ("--properties-file", str(properties), "-i", str(views))
        return wait_for([str(spark_home / "bin" / "spark-sql"), *files, *arguments], environment)
    finally:
        scratch.remove()


def shell_settings(config: "JobConfig", scratch: "Scratch", java: "Java") -> dict[str, str]:
    """Return the Spark properties of the shell; they include the job's and may hold secrets."""
    from rich.console import Console

    from streaming.config import reveal
    from streaming.embedded.jvm.jars import resolve_jars
    from streaming.spark.session import available_cores
    from streaming.spark.settings import (
        delta_settings,
        driver_java_options,
        local_settings,
        quiet_settings,
    )

    cores = available_cores()
    jars = resolve_jars("spark", progress=Console(stderr=True))
    log = scratch.path / "spark.log"
    return {
        "spark.master": "local[*]",
        "spark.app.name": "dlx spark sql",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": driver_java_options(
            scratch.path, log, log_level="warn", java_major=java.major
        ),
        "spark.jars": ",".join(jar.as_uri() for jar in jars),
        "spark.sql.shuffle.partitions": str(cores),  # the default of 200 is for clusters
        "spark.sql.session.timeZone": "UTC",
        # The statements that create views print headers too, so headers are for terminals only.
        "spark.sql.cli.print.header": str(sys.stdout.isatty()).lower(),
        **delta_settings(),
        **quiet_settings(scratch.path),
        **local_settings(scratch.path, scratch.sockets, cores),
        **reveal(config.job.spark_properties, "job.spark_properties", os.environ),
    }


def create_views(tables: Mapping[str, str]) -> Iterable[str]:
    """Yield one statement per view. Spark reads the table again for each query on it."""
    from streaming.ledger.schema import views

    for name, place in tables.items():
        table = "delta.`" + place.replace("`", "``") + "`"
        yield f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM {table};\n"  # noqa: S608 (quoted above)
    for statement in views.create_views(tables, "spark"):
        yield f"{statement.rstrip()};\n"


def wait_for(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program that handles Ctrl-C itself; SIGTERM to this process ends it."""
    with subprocess.Popen(command, env=environment) as program:
        signal.signal(signal.SIGINT, lambda *_: None)  # the shell cancels its statement
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        return program.wait()
