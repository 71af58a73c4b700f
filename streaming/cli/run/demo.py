"""`dlx demo`: shows the job with a real Kafka, Spark and Delta on an order process."""

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK
from streaming.cli.options import ConfigFile, find_config, is_on_command_line
from streaming.demo.steps import Step
from topology.errors import DlxError

DEFAULT_SECONDS: Final = 45.0


def demo(
    context: typer.Context,
    *,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="How long messages flow after the first batch.  [default: 45; with "
            "--traffic-only: until stopped]",
            show_default=False,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="Folder for everything; an existing one is continued.  [default: demo in the "
            "user's cache]",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="After the report, keep Kafka, the job and the front running until Ctrl-C.",
        ),
    ] = False,
    traffic_only: Annotated[
        bool,
        typer.Option(
            "--traffic-only",
            help="Only publish and consume, for the running job of --config, as clients of the "
            "wire format. The vhost is /, or else the first one that is not sequenced.",
        ),
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster", help="Run the job's tasks on a Spark master and two workers, started here."
        ),
    ] = False,
    no_console: Annotated[
        bool, typer.Option("--no-console", help="Do not serve the console beside the demo.")
    ] = False,
    pause_at: Annotated[
        list[Step] | None,
        typer.Option(
            "--pause-at",
            metavar="STEP",
            help="Wait for Enter before a step: deploy, repair, cause, before, redrive or report. "
            "Messages flow while it waits for deploy or repair; before the others the shop has "
            "closed. May be repeated.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> int:
    """Show the whole system at work; no setup needed.

    Starts Kafka, the job and an AMQP front (`dlx amqp`), and declares the queues of an order
    process: retry with a TTL, a parking lot, an alternate exchange, a length limit. A publisher and
    four consumers work on them with pika, a client of RabbitMQ, while a live view shows the queues.

    Then somebody deploys a bad release, and one kind of order dies. The demo finds the cause, shows
    what was in the queue before, sends the dead letters back, and follows them until they are
    acknowledged. The report has the dead letters with their history, the balance, and how to query
    both.

    Exit status: 0 if the balance closes, 1 if it does not or the job failed, 2 if the demo could
    not start, 130 after Ctrl-C before the report.
    """
    if not traffic_only and is_on_command_line(context, "config"):
        raise typer.BadParameter(
            "requires --traffic-only; the demo writes its own", param_hint="--config"
        )
    if traffic_only and (keep or cluster or directory is not None or pause_at):
        raise typer.BadParameter(
            "cannot be combined with --cluster, --dir, --keep or --pause-at",
            param_hint="--traffic-only",
        )
    if traffic_only:
        return _traffic(find_config(config), seconds)
    steps = frozenset(pause_at or ())
    return _show(
        directory,
        seconds or DEFAULT_SECONDS,
        steps,
        keep=keep,
        with_cluster=cluster,
        with_console=not no_console,
    )


def _show(
    directory: Path | None,
    seconds: float,
    pauses: frozenset[Step],
    *,
    keep: bool,
    with_cluster: bool,
    with_console: bool,
) -> int:
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no types
        from pyspark.errors import PySparkException
        from rich.console import Console

        from streaming.demo.show import Show
        from streaming.user_folders import demo_folder

        default = demo_folder(in_cluster=with_cluster)
        folder = (directory or default).expanduser().absolute()
        show = Show(
            folder,
            seconds,
            keep=keep,
            console=Console(highlight=False, markup=False, emoji=False),
            progress=Console(stderr=True),
            pauses=pauses,
            with_cluster=with_cluster,
            with_console=with_console,
        )
        try:
            return EXIT_OK if show.run() else EXIT_FINDINGS
        except (PySparkException, Py4JError) as failure:
            print(f"dlx demo: the job failed: {str(failure)[:2000]}", file=sys.stderr)
            print(f"see Spark's log: {folder / 'logs' / 'spark.log'}", file=sys.stderr)
            return EXIT_FINDINGS
    except KeyboardInterrupt:
        print("\ndlx demo: stopped; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Stop in order; a second signal kills this process, and its children end with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def _traffic(file: Path, seconds: float | None) -> int:
    from rich.console import Console

    from streaming.client.address import address_of
    from streaming.config import load_config
    from streaming.demo.traffic import run_traffic_only, traffic_vhost
    from streaming.waiting import Flag

    config = load_config(file)
    address = address_of(config, vhost=traffic_vhost(config))
    stopping = Flag()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        run_traffic_only(
            address, seconds, stopping, Console(highlight=False, markup=False, emoji=False)
        )
    except DlxError as error:
        print(f"dlx demo: {error}", file=sys.stderr)
        return EXIT_INVALID
    return EXIT_OK
