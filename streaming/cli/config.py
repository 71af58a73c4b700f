"""`dlx config`: show and check a job's configuration file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli import starter_config
from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import DEFAULT_FILE, ConfigFile, find_config

app = typer.Typer(
    name="config",
    help="Write, show and check dlx.toml, the configuration file of a job.",
    epilog="Examples:\n\ndlx config init --definitions definitions.json\n\n"
    "dlx config show > dlx.toml\n\ndlx config check dlx.toml --secrets",
    no_args_is_help=True,
    rich_markup_mode=None,
)


File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Instead of the one that --config finds.")
]


@app.command()
def show(file: File = None, *, config: ConfigFile = None) -> int:
    """Print a configuration with every default and a description of each setting.

    Without a file, --config or ./dlx.toml it prints the defaults. The output is itself a valid
    dlx.toml. For a secret it shows where to find it, never its text.
    """
    from streaming.config import JobConfig, read_config, show_config

    chosen = file or config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    print(show_config(JobConfig() if chosen is None else read_config(chosen)), end="")
    return EXIT_OK


@app.command()
def check(
    file: File = None,
    *,
    config: ConfigFile = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also check that every secret is available here.")
    ] = False,
) -> int:
    """Check a configuration and the definitions files that it names.

    It prints each problem on stderr as one line, with its path in the file.
    """
    from streaming.config import load_config
    from streaming.config.definitions_files import check_secrets, load_vhost_definitions

    chosen = file or find_config(config)
    job = load_config(chosen)
    load_vhost_definitions(job, lambda words: print(f"skipped: {words}"))
    if secrets:
        check_secrets(job, os.environ)
    print(f"{chosen}: valid")
    return EXIT_OK


app.command()(starter_config.init)
