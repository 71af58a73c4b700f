"""`dlx bench`: benchmarks and endurance runs; `dlx compile`: the compiled core."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK

app = typer.Typer(name="bench", help="Run benchmarks and endurance tests.", no_args_is_help=True)


@app.command()
def chaos(
    kills: Annotated[int, typer.Option(help="How often the job is killed.", min=1)] = 30,
    messages: Annotated[int, typer.Option(help="Messages in the log.", min=100)] = 60_000,
) -> int:
    """Kill a loaded job again and again; its tables must equal those of an undisturbed one.

    Exits with 1 if they differ, or if the log was read before all kills were done.
    """
    from streaming.bench.chaos import run_chaos
    from streaming.embedded.kafka.broker import EmbeddedKafka

    with tempfile.TemporaryDirectory(prefix="dlx-chaos-") as folder:
        root = Path(folder)
        with EmbeddedKafka(root / "kafka") as kafka:
            result = run_chaos(root / "jobs", kafka.bootstrap_servers, messages, kills)
    rows = ", ".join(f"{count} {table}" for table, count in result.rows.items())
    print(f"{result.messages} messages, {result.kills} kills; rows: {rows}")
    for finding in result.findings:
        print(finding)
    print("identical" if not result.differences else "NOT identical")
    return EXIT_FINDINGS if result.findings else EXIT_OK


@app.command()
def pipeline(
    case: Annotated[
        list[str] | None,
        typer.Option(help="throughput, latency, resident, queues, commits or idle; default: all."),
    ] = None,
    messages: Annotated[int, typer.Option(help="Messages on the clock.", min=1)] = 1_000_000,
    batch: Annotated[int, typer.Option(help="Records a batch in throughput.", min=1)] = 200_000,
    rate: Annotated[int, typer.Option(help="Messages a second in latency.", min=1)] = 1_000,
    seconds: Annotated[int, typer.Option(help="How long latency and idle take.", min=1)] = 30,
    resident: Annotated[int, typer.Option(help="Messages that are there before.", min=10)] = (
        1_000_000
    ),
    queues: Annotated[int, typer.Option(help="Active queues.", min=1)] = 10_000,
    history: Annotated[int, typer.Option(help="Batches committed before.", min=1)] = 100_000,
    small_batch: Annotated[
        int, typer.Option(help="Records a batch in resident and queues.", min=1)
    ] = 20_000,
    batches: Annotated[
        int, typer.Option(help="Batches that are timed in resident and queues.", min=1)
    ] = 15,
    commits: Annotated[int, typer.Option(help="Commits that are timed.", min=1)] = 300,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a case.")] = False,
) -> int:
    """Measure the job on real Kafka, Spark and Delta, brought up for it.

    throughput: every message dies once (half by TTL, half by length) into a dead-letter queue, with
    one lane and with a lane a core, next to a plain Kafka to Delta copy of the same records by
    Spark's own writer, and next to the core alone. latency: from reject to the row in dead_letters.
    resident, queues, commits: the time of a batch or commit with much there, against little. idle:
    the cores in use while nothing is published.
    """
    from streaming.bench.pipeline import CASES, Sizes
    from streaming.bench.pipeline_environment import Stand

    wanted = case or list(CASES)
    for name in wanted:
        if name not in CASES:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(CASES)}", param_hint="--case")
    sizes = Sizes(
        messages,
        batch,
        rate,
        seconds,
        resident,
        queues,
        history,
        small_batch=small_batch,
        batches=batches,
        commits=commits,
    )
    with tempfile.TemporaryDirectory(prefix="dlx-bench-") as folder, Stand(Path(folder)) as stand:
        for name in wanted:
            for figures in CASES[name](stand, sizes):
                _say(figures, as_json=as_json)
    return EXIT_OK


def _say(figures: dict[str, object], *, as_json: bool) -> None:
    """One line."""
    if as_json:
        print(json.dumps(figures), flush=True)
    else:
        print("  ".join(f"{key} {value}" for key, value in figures.items()), flush=True)


@app.command()
def core(
    messages: Annotated[int, typer.Option(help="Messages on the clock, a case.", min=1)] = 200_000,
    resident: Annotated[int, typer.Option(help="Messages that are there before.", min=1)] = (
        1_000_000
    ),
    queues: Annotated[int, typer.Option(help="Other queues that are there.", min=1)] = 10_000,
    *,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Then the same compiled; built if need be.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a case.")] = False,
) -> int:
    """Measure the broker's core in one process on one core.

    Publishes through a topic exchange to ten work queues; every message dies once (a third each by
    reject, TTL and length) into a dead-letter queue and is read there; events are built. Then the
    same with much resident: ready, unacked, just returned by close_channel, in many other queues.
    """
    from streaming.bench.core import CASES, Size, measure
    from streaming.compiled import in_use

    empty_us = 0.0
    for name in CASES:
        result = measure(name, Size(messages=messages, resident=resident, queues=queues))
        empty_us = empty_us or result.us_per_message
        figures = {
            "core": "compiled" if in_use() else "plain",
            "case": name,
            "messages_per_s": round(result.messages_per_s),
            "reference_ratio": round(result.us_per_message / result.reference_us, 2),
            "cost_of_empty": round(result.us_per_message / empty_us, 2),
            "events_per_message": round(result.events, 2),
            "resident": result.resident,
            "state_bytes_per_message": result.state_bytes and round(result.state_bytes, 1),
        }
        if as_json:
            print(json.dumps(figures), flush=True)
        else:
            print("  ".join(f"{key} {value}" for key, value in figures.items()), flush=True)
    return _core_compiled() if compiled else EXIT_OK


@app.command()
def load(
    seconds: Annotated[float, typer.Option(help="How long is published.", min=1)] = 300,
    rate: Annotated[float, typer.Option(help="Messages a second, in all.", min=1)] = 1000,
    kills: Annotated[int, typer.Option(help="Kills of anything that runs.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Of the chances.")] = 1,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Leave everything here; must be empty.")
    ] = None,
) -> int:
    """Two publishers and four consumers at work, killed at random if asked; the ledger judges.

    10 % of the messages are rejected, 5 % requeued once. Exit 1 unless every message was settled
    exactly once, in order but for redeliveries, with a closed balance.
    """
    from streaming.bench.load import Load, run_load

    with tempfile.TemporaryDirectory(prefix="dlx-load-") as scratch:
        root = Path(scratch) if folder is None else folder.absolute()
        root.mkdir(parents=True, exist_ok=True)
        verdict, changes = run_load(root, Load(seconds, rate, kills, seed))
    for name, value in verdict._asdict().items():
        if name != "problems":
            print(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    for change in changes:
        print(f"{change.name} early {change.early:g} late {change.late:g}")
    for problem in verdict.problems:
        print(f"problem: {problem}")
    print("all is accounted for" if not verdict.problems else "NOT all is accounted for")
    return EXIT_FINDINGS if verdict.problems else EXIT_OK


def _core_compiled() -> int:
    """The same command in a process that uses the compiled core."""
    from streaming.compiled import VARIABLE, default_folder
    from streaming.compiled.build import build

    if not default_folder().is_dir():
        print("building the compiled core ...", file=sys.stderr)
        build(default_folder())
    arguments = [argument for argument in sys.argv[1:] if argument != "--compiled"]
    command = [sys.executable, "-P", "-m", "streaming.cli", *arguments]
    return subprocess.run(command, env={**os.environ, VARIABLE: "1"}, check=False).returncode


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
