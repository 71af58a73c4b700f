"""`dlx config alerts`: the alert rules and dashboards that come with dlx."""

import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, listing
from topology.errors import DlxError

app = command_group(
    "alerts",
    "Try and export alert rules for Prometheus, and dashboards for Grafana.",
    "dlx config alerts test",
    "dlx config alerts export monitoring",
)

LISTING: Final = Listing(
    (Column("result", 0), Column("cause", 0, kind="free"), Column("alerts", 0, kind="free"))
)


class ExportError(DlxError):
    """The files cannot be written."""


@app.command()
@listing
def test(*, view: OutputOptions) -> int:
    """Play the cause of each alert, and check that it fires and no other does.

    It plays an hour of virtual time with promtool, which comes with Prometheus. No job is needed.

    Exit status: 1 if an alert did not fire, or one fired without its cause.
    """
    from streaming.metrics.alert_cases import CASES
    from streaming.metrics.alerts import play

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            said = play(case, Path(folder))
            result = "failed" if said else "ok"
            alerts = ", ".join(case.fires) or None
            rows.append({"result": result, "cause": case.cause, "alerts": alerts, "output": said})
    print_listing(LISTING, rows, view)
    if view.output == "table":
        print(*(row["output"] for row in rows if row["output"]), sep="\n", end="")
    return EXIT_FINDINGS if any(row["output"] for row in rows) else EXIT_OK


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; it is created.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    docs: Annotated[
        str | None,
        typer.Option(
            "--docs",
            metavar="URL",
            help="Where you publish this documentation, for the runbook links of the alerts.",
        ),
    ] = None,
) -> int:
    """Write the alert rules, two dashboards and an example configuration of Prometheus to a folder.

    dlx-alerts.yml belongs under rule_files of prometheus.yml; the dashboards dlx-job.json and
    dlx-dead-letters.json are imported in Grafana.
    """
    from streaming.metrics.alerts import RULES, SHIPPED, with_docs

    files = sorted(SHIPPED.iterdir())
    existing = [file.name for file in files if (folder / file.name).exists()]
    if existing and not force:
        raise ExportError(f"{folder} already has {', '.join(existing)}: --force replaces them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            text = file.read_text("utf-8")
            if docs is not None and file == RULES:
                text = with_docs(text, docs)
            (folder / file.name).write_text(text, "utf-8")
            print(folder / file.name)
    except OSError as error:
        raise ExportError(f"{error.filename}: {error.strerror}; choose another folder") from None
    return EXIT_OK
