"""`dlx compile`: build the compiled core."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_OK


def compile_core(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Build here instead of in the user's cache.")
    ] = None,
) -> int:
    """Compile the broker's core with mypyc.

    Takes half a minute and needs a C compiler. The behaviour stays the same. Set DLX_COMPILED to
    use the build; without it, or with a build of other sources, the plain Python code runs.
    """
    from streaming.compiled import VARIABLE, default_folder
    from streaming.compiled.build import build

    target = default_folder() if folder is None else folder.absolute()
    build(target)
    print(f"built {target}")
    print(f"{VARIABLE}={1 if folder is None else target} dlx run ... uses it")
    return EXIT_OK
