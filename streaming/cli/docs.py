"""`dlx docs`: the documentation of this checkout, by tools/docs."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INVALID, EXIT_OK

ROOT: Final = Path(__file__).resolve().parents[2]


def build_docs(
    *,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the site and rebuild it as pages change.")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="Renew the generated parts of the pages.")
    ] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="Renew the terminal recordings from a real demo and job."),
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine and redraw the figures.")
    ] = False,
) -> int:
    """Build the documentation of this checkout as a site, in build/site.

    Exit status: 0, 1 if the site has an error, 2 outside a checkout.
    """
    if not (ROOT / "tools" / "docs").is_dir():
        print(f"dlx docs works in a checkout of the project, not in {ROOT}", file=sys.stderr)
        return EXIT_INVALID
    wanted = {"serve": serve, "generate": generate, "record": record, "measure": measure}
    for action in [name for name, asked in wanted.items() if asked] or ["build"]:
        command = (sys.executable, "-m", "tools.docs", action)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return EXIT_FINDINGS
    return EXIT_OK
