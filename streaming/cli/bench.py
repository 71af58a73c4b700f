"""dlx bench: measurements and endurance, off the tests' path."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK

app = typer.Typer(name="bench", help="Measure, and kill, what runs here.", no_args_is_help=True)


@app.command()
def chaos(
    kills: Annotated[int, typer.Option(help="How often the job is killed.", min=1)] = 30,
    messages: Annotated[int, typer.Option(help="Messages in the log.", min=100)] = 60_000,
) -> int:
    """Kill a loaded job again and again; its tables must equal those of an undisturbed one."""
    from streaming.bench.chaos import run_chaos
    from streaming.embedded.kafka import EmbeddedKafka

    with tempfile.TemporaryDirectory(prefix="dlx-chaos-") as folder:
        root = Path(folder)
        with EmbeddedKafka(root / "kafka") as kafka:
            result = run_chaos(root / "jobs", kafka.bootstrap_servers, messages, kills)
    rows = ", ".join(f"{count} {table}" for table, count in result.rows.items())
    print(f"{result.messages} messages, {result.kills} kills; rows: {rows}")
    for difference in result.differences:
        print(f"differs: {difference}")
    print("identical" if not result.differences else "NOT identical")
    return EXIT_OK if not result.differences else EXIT_FINDINGS
