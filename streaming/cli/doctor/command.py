"""`dlx doctor`: checks what a job needs, and says what to do about what is missing."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from streaming.cli.command_group import ROOT
from streaming.cli.doctor.explain import explain
from streaming.cli.doctor.machine import Finding
from streaming.cli.doctor.support import bundle
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing, screen_width
from streaming.cli.listing.view import OutputOptions, record
from streaming.cli.options import ConfigFile, Timeout, find_config
from streaming.cli.output import print_in_colour, printable
from topology.errors import DlxError

DEFAULT_TIMEOUT_S: Final = 5.0
MAX_COLUMNS: Final = 100
INDENT: Final = " " * 6
LISTING: Final = Listing((Column("status"), Column("check"), Column("detail"), Column("remedy")))
_TONES: Final = {"ok": "good", "warn": "moved", "fail": "bad"}


app = typer.Typer(
    name="doctor",
    epilog="Examples:\n\ndlx doctor\n\ndlx doctor explain kafka-unreachable\n\n"
    "dlx doctor bundle job.zip --config dlx.toml",
    rich_markup_mode=None,
)
app.command()(explain)
app.command()(bundle)


@app.callback(invoke_without_command=True)
@record
def doctor(
    context: typer.Context,
    *,
    config: ConfigFile = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Create nothing in Kafka; the clocks are then not compared."
        ),
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    view: OutputOptions,
) -> int:
    """Check what a job needs; explain errors; make a support bundle.

    It checks Python, packages, Java, jars, folders, disks and ports. With a configuration it also
    checks Kafka, the topics, the clocks, the checkpoint, the tables, and the health and progress of
    a running job. To compare the clocks it creates a topic dlx.doctor.ID and deletes it again.

    Exit status: 0, or 1 if a check failed. A warning does not count.
    """
    if context.invoked_subcommand is not None:
        return EXIT_OK
    findings = []
    for finding in _findings(config, timeout, write=not read_only):
        findings.append(finding)
        if view.output == "table":
            _print(finding)
    if view.output != "table":
        rows = [msgspec.to_builtins(finding) for finding in findings]
        print_listing(LISTING, rows, view)
    return EXIT_FINDINGS if any(each.status == "fail" for each in findings) else EXIT_OK


def _findings(config: Path | None, timeout_s: float, *, write: bool) -> Iterator[Finding]:
    from streaming.cli.doctor.job import check_job
    from streaming.cli.doctor.machine import check_machine

    yield from check_machine(ROOT)
    try:
        file = find_config(config)
    except DlxError:
        what = "none found: Kafka, topics, clock, checkpoint and tables are not checked"
        remedy = "name it with --config, or write one with `dlx config init`"
        yield Finding("warn", "configuration", what, remedy)
        return
    yield from check_job(file, timeout_s, write=write)


def _print(finding: Finding) -> None:
    """Print a finding as it is made: the checks of Kafka may take seconds."""
    head = f"{finding.status.ljust(6)}{finding.check}: "
    width = screen_width() or MAX_COLUMNS
    lines = textwrap.wrap(printable(head + finding.detail), width, subsequent_indent=INDENT)
    if finding.remedy:
        remedy = printable(f"remedy: {finding.remedy}")
        lines += textwrap.wrap(
            remedy, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
        )
    print_in_colour((line, _TONES[finding.status]) for line in lines)
