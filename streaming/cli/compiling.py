"""dlx compile: the broker's core as C, for more messages a second."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_OK


def compile_core(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Build here instead of in the user's cache.")
    ] = None,
) -> int:
    """Build the broker's core with mypyc; needs a C compiler, takes half a minute.

    What it does stays the same, and the plain Python goes on working. The build is used where
    DLX_COMPILED asks for it, as long as it fits the sources.
    """
    from streaming.compiled import VARIABLE, default_folder
    from streaming.compiled.build import build

    target = default_folder() if folder is None else folder.absolute()
    build(target)
    print(f"built {target}")
    print(f"{VARIABLE}={1 if folder is None else target} dlx run ... uses it")
    return EXIT_OK
