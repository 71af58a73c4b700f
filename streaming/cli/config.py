"""`dlx config`: show and check a job's configuration file."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK

DEFAULT_FILE: Final = Path("dlx.toml")
ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", help="The job's dlx.toml.")
]

app = typer.Typer(
    name="config",
    help="Show and check dlx.toml, a job's configuration file.",
    epilog="Examples:\n\ndlx config show > dlx.toml\n\ndlx config check dlx.toml --secrets",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def show(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Default: dlx.toml if it exists, otherwise no file."),
    ] = None,
) -> int:
    """Print a configuration with every default and a description of each setting.

    The output is itself a valid dlx.toml. For a secret it shows where to find it, never its text.
    """
    from streaming.config import JobConfig, read_config, show_config

    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    print(show_config(JobConfig() if file is None else read_config(file)), end="")
    return EXIT_OK


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="[FILE]")] = DEFAULT_FILE,
    *,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also check that every secret is available here.")
    ] = False,
) -> int:
    """Check a configuration and the definitions files that it names.

    It prints each problem on stderr as one line, with its path in the file.
    """
    from streaming.config import load_config
    from streaming.config.definitions_files import check_secrets, load_vhost_definitions

    config = load_config(file)
    load_vhost_definitions(config, lambda words: print(f"skipped: {words}"))
    if secrets:
        check_secrets(config, os.environ)
    print(f"{file}: valid")
    return EXIT_OK
