"""`dlx config completion` and `dlx --version`: what a shell and a bug report want to know."""

import os
import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from streaming.cli.command_group import COMPLETION_VARIABLE, PROGRAM
from streaming.cli.exit_codes import EXIT_OK

SHELLS: Final = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        typer.Argument(metavar="[SHELL]", help="bash, zsh or fish. Default: that of $SHELL."),
    ] = None,
) -> int:
    """Print a script that completes commands and options in your shell.

    \b
    bash   echo 'eval "$(dlx config completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(dlx config completion zsh)"' >> ~/.zshrc
    fish   dlx config completion fish > ~/.config/fish/completions/dlx.fish
    """
    from typer.completion import (  # type: ignore[attr-defined] # typer exports nothing
        get_completion_script,
    )

    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise typer.BadParameter(
            f"$SHELL names none of {', '.join(SHELLS)}: name one", param_hint="SHELL"
        )
    script = get_completion_script(
        prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=chosen
    )
    print(script)
    return EXIT_OK


def version_line(checkout: Path) -> str:
    """Return the version of this program and of its Python.

    Args:
        checkout: the folder of pyproject.toml, unless the package is installed.
    """
    from streaming.program_version import program_version

    return f"{PROGRAM} {program_version(checkout)}, Python {sys.version.split()[0]}"
