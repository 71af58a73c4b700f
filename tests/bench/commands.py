"""`dlx bench`: benchmarks and endurance runs, part of a checkout."""

import signal
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.output import print_json
from streaming.embedded.errors import EmbeddedError

app = typer.Typer(name="bench", help="Run benchmarks and endurance tests.", no_args_is_help=True)
_TERMINATED = 128 + signal.SIGTERM

Folder = Annotated[Path | None, typer.Option("--dir", help="Keep all files here; must be empty.")]
Seed = Annotated[int, typer.Option(help="Other seeds kill at other instants.")]
Kills = Annotated[int, typer.Option(help="How often to kill a process.", min=0)]
Partitions = Annotated[int, typer.Option(help="Partitions of each of the two input topics.", min=1)]
Measured = Annotated[int, typer.Option(help="Messages measured per case.", min=100)]
Letters = Annotated[int, typer.Option(help="Dead letters in the tables.", min=10)]
Cluster = Annotated[
    bool,
    typer.Option(
        "--cluster",
        help="Run tasks on two Spark workers that share no disk, with tables and checkpoint in "
        "MinIO; needs root, and Go to build MinIO once.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line per case.")]


@app.command()
def chaos(
    kills: Annotated[int, typer.Option(help="How often to kill the job.", min=1)] = 30,
    messages: Annotated[int, typer.Option(help="Messages in the log.", min=100)] = 60_000,
    *,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Remove the checkpoint at each kill, and rebuild it from the tables."
        ),
    ] = False,
    partitions: Partitions = 4,
    lanes: Annotated[
        int,
        typer.Option(help="Lanes of each vhost; with several, consumers settle on all.", min=1),
    ] = 2,
    cluster: Cluster = False,
    front: Annotated[
        bool,
        typer.Option(
            "--front",
            help="Kill AMQP fronts, a job and Kafka while clients in Python and Go work, and check "
            "what these saw against the tables; needs Go.",
        ),
    ] = False,
    seed: Seed = 1,
    folder: Folder = None,
) -> int:
    """Kill a job again and again, and compare its tables with an undisturbed job.

    Each partition feeds a vhost of its own, whose tables must be equal row by row. All partitions
    feed another vhost: batches decide how their records merge, so its rows are compared as a set,
    without their order and instants. --cluster kills executors, workers, the driver and one of
    three Kafka brokers, and lets the store be away.

    Exit status: 1 if they differ, or if the log ended before all kills.
    """
    if cluster and rebuild:
        raise typer.BadParameter("cannot be combined with --rebuild", param_hint="--cluster")
    if front:
        if cluster or rebuild:
            hint = "--cluster" if cluster else "--rebuild"
            raise typer.BadParameter("cannot be combined with --front", param_hint=hint)
        return _front_chaos(kills, seed, folder)
    from streaming.embedded.kafka.broker import EmbeddedKafka
    from tests.bench.chaos.cluster import run_cluster_chaos
    from tests.bench.chaos.log import LogShape
    from tests.bench.chaos.run import run_chaos

    shape = LogShape(partitions, lanes)
    with _sigterm_ends(), _root(folder, "dlx-chaos-") as root:
        if cluster:
            result = run_cluster_chaos(root, messages, kills, seed=seed, shape=shape)
        else:
            with EmbeddedKafka(root / "kafka") as kafka:
                result = run_chaos(
                    root / "jobs",
                    kafka.bootstrap_servers,
                    messages,
                    kills,
                    seed=seed,
                    rebuild=rebuild,
                    shape=shape,
                )
    rows = ", ".join(f"{count} {table}" for table, count in result.rows.items())
    print(f"{result.messages} messages, {result.kills} kills; rows: {rows}")
    for finding in result.findings:
        print(finding)
    print("identical" if not result.differences else "NOT identical")
    return EXIT_FINDINGS if result.findings else EXIT_OK


def _front_chaos(kills: int, seed: int, folder: Path | None) -> int:
    from tests.bench.chaos.front.run import run_front_chaos

    with _sigterm_ends(), _root(folder, "dlx-chaos-") as root:
        result = run_front_chaos(root, kills, seed=seed)
    print("; ".join(f"{count} x {kind}" for kind, count in sorted(result.kills.items())))
    print(", ".join(f"{count} {kind}" for kind, count in sorted(result.seen.items())))
    print(
        f"{result.redelivered} redelivered, {result.waiting} published to a leader asleep, "
        f"{result.void} void, {result.records} records, {result.digests} digests equal"
    )
    for finding in result.findings:
        print(finding)
    print("as the clients saw it" if not result.findings else "NOT as the clients saw it")
    return EXIT_FINDINGS if result.findings else EXIT_OK


@app.command()
def pipeline(
    case: Annotated[
        list[str] | None,
        typer.Option(
            help="throughput, shapes, consume, lanes, settle, versus, versus_amqp, latency, "
            "resident, queues, commits or idle; default: all, versus and versus_amqp only if a "
            "RabbitMQ is there."
        ),
    ] = None,
    messages: Annotated[
        int, typer.Option(help="Messages measured in throughput, shapes and versus.", min=100)
    ] = 1_000_000,
    batch: Annotated[int, typer.Option(help="Records per batch in throughput.", min=1)] = 200_000,
    rate: Annotated[
        list[int] | None,
        typer.Option(
            help="Messages per second in latency and versus_amqp; may be repeated. Default: 1000 "
            "and 5000.",
            min=1,
        ),
    ] = None,
    seconds: Annotated[
        int, typer.Option(help="Duration of latency, idle and steady rates.", min=1)
    ] = 30,
    resident: Annotated[
        int, typer.Option(help="Messages in the queues in resident.", min=10)
    ] = 1_000_000,
    queues: Annotated[int, typer.Option(help="Active queues in queues.", min=1)] = 10_000,
    history: Annotated[int, typer.Option(help="Earlier batches in commits.", min=1)] = 100_000,
    small_batch: Annotated[
        int, typer.Option(help="Records per batch in resident and queues.", min=1)
    ] = 20_000,
    batches: Annotated[
        int, typer.Option(help="Batches measured in resident and queues.", min=1)
    ] = 15,
    commits: Annotated[int, typer.Option(help="Commits measured in commits.", min=1)] = 300,
    consumed: Annotated[
        int, typer.Option(help="Messages measured when consumed.", min=100)
    ] = 200_000,
    minutes: Annotated[
        float,
        typer.Option(
            help="Duration of a sustained rate in versus_amqp, beside RabbitMQ's; 0: not measured.",
            min=0,
        ),
    ] = 0,
    amqp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The RabbitMQ of versus and versus_amqp, such as "
            "amqp://guest:guest@localhost:5672, with an empty vhost; by default the installed "
            "rabbitmq-server is started.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Measure the job with a real Kafka, Spark and Delta, started for this run.

    throughput: messages per second while every message dies once (half by TTL, half by length),
    with one lane and with one per core, compared with Spark's plain copy from Kafka to Delta and
    with the core alone. shapes: the same with one lane, by what the messages carry. consume:
    publish, deliver and acknowledge through Kafka. settle: the same with single acks and rejects.
    versus: dead-lettering and consuming beside a real RabbitMQ, driven by its own PerfTest; then
    versus_amqp, which can be chosen by itself: PerfTest's messages through dlx amqp, on Kafka and
    followed by the job, beside RabbitMQ's; then at steady rates, with the delay of confirms and
    rows, one at a time, and for --minutes as fast as the tables follow.
    latency: from a reject to its row in dead_letters. resident, queues, commits: the time of a
    batch or commit with many messages, queues or earlier batches, compared with few. idle: the
    cores in use while nothing is published.
    """
    from tests.bench.pipeline.cases import CASES
    from tests.bench.pipeline.environment import BenchEnvironment
    from tests.bench.pipeline.figures import LATENCY_RATES, Sizes
    from tests.bench.pipeline.rabbitmq import check_rabbitmq

    wanted = list(case or CASES)
    if "versus" in wanted and "versus_amqp" not in wanted:
        wanted.insert(wanted.index("versus") + 1, "versus_amqp")
    for name in wanted:
        if name not in CASES:
            text = f"unknown case {name!r}: expected {', '.join(CASES)}"
            raise typer.BadParameter(text, param_hint="--case")
    compared = {"versus", "versus_amqp"} & set(wanted)
    if compared:
        try:
            check_rabbitmq(amqp)
        except EmbeddedError as error:
            if case or amqp:
                raise
            print(f"{', '.join(sorted(compared))}: left out: {error}", file=sys.stderr)
            wanted = [name for name in wanted if name not in compared]
    flow = (messages, batch, tuple(rate or LATENCY_RATES), seconds)
    sizes = Sizes(
        *flow, resident, queues, history, small_batch, batches, commits, consumed, minutes
    )
    with (
        tempfile.TemporaryDirectory(prefix="dlx-bench-") as folder,
        BenchEnvironment(Path(folder), amqp) as environment,
    ):
        for name in wanted:
            for figures in CASES[name](environment, sizes):
                _print(figures, as_json=as_json)
    return EXIT_OK


def _print(figures: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(figures)
    else:
        print("  ".join(f"{key} {value}" for key, value in figures.items()))
    sys.stdout.flush()


@app.command("dead-letters")
def dead_letters(
    letters: Letters = 1_000_000,
    runs: Annotated[int, typer.Option(help="Runs per command; the best counts.", min=1)] = 3,
    *,
    as_json: AsJson = False,
) -> int:
    """Measure the commands that ask dead letters, as processes, on synthetic tables."""
    from tests.bench.dead_letter_rows import run

    for figures in run(letters, runs):
        _print(figures, as_json=as_json)
    return EXIT_OK


@app.command()
def core(
    messages: Measured = 200_000,
    resident: Annotated[
        int, typer.Option(help="Messages in the queues before.", min=1)
    ] = 1_000_000,
    queues: Annotated[int, typer.Option(help="Other queues.", min=1)] = 10_000,
    *,
    as_json: AsJson = False,
) -> int:
    """Measure the broker's core in one process on one CPU core.

    Publishes through a topic exchange to ten work queues. Every message dies once (a third each by
    reject, TTL and length) into a dead-letter queue and is read there. The other cases do the same
    with many messages ready, unacked or just requeued by a closed channel, or with many other
    queues.
    """
    from tests.bench.core import CASES, Size, measure

    empty_us = 0.0
    for name in CASES:
        result = measure(name, Size(messages=messages, resident=resident, queues=queues))
        empty_us = empty_us or result.us_per_message
        figures = {
            "case": name,
            "messages_per_s": round(result.messages_per_s),
            "reference_ratio": round(result.us_per_message / result.reference_us, 2),
            "cost_of_empty": round(result.us_per_message / empty_us, 2),
            "events_per_message": round(result.events, 2),
            "resident": result.resident,
            "state_bytes_per_message": result.state_bytes and round(result.state_bytes, 1),
        }
        _print(figures, as_json=as_json)
    return EXIT_OK


@app.command()
def load(
    seconds: Annotated[float, typer.Option(help="How long to publish.", min=1)] = 300,
    rate: Annotated[float, typer.Option(help="Messages per second, in total.", min=1)] = 1000,
    kills: Kills = 0,
    seed: Seed = 1,
    partitions: Partitions = 4,
    lanes: Annotated[int, typer.Option(help="Lanes of the vhost.", min=1)] = 2,
    folder: Folder = None,
    *,
    cluster: Cluster = False,
) -> int:
    """Run two publishers and four consumers, and verify the result with the tables.

    10 % of the messages are rejected, 5 % requeued once. --kills kills publishers, consumers,
    Kafka, the job and, with --cluster, workers at random.

    How the records of several partitions merge depends on where batches begin, so messages are
    compared as a set; those of one record key must arrive in order.

    Exit status: 1 unless every message was settled exactly once, in order except for redeliveries,
    and the balance closes.
    """
    from tests.bench.load.run import Load, run_load

    with _root(folder, "dlx-load-") as root:
        report, changes = run_load(
            root, Load(seconds, rate, kills, seed, partitions, lanes), in_cluster=cluster
        )
    for name, value in report._asdict().items():
        if name != "problems":
            print(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    for change in changes:
        print(f"{change.name} early {change.early:g} late {change.late:g}")
    return _verdict(report.problems)


@app.command()
def scale(
    messages: Measured = 400_000,
    batch: Annotated[int, typer.Option(help="Records per batch.", min=1)] = 100_000,
    batches: Annotated[int, typer.Option(help="Batches of each case of the model.", min=1)] = 10,
    folder: Folder = None,
    *,
    model_only: Annotated[
        bool, typer.Option("--model-only", help="Only the core and commits, without a cluster.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Measure what lanes and executors cost.

    executors_*: messages per second, each dying once, on a Spark cluster of child processes with 1
    and 2 executors and 1, 2 and 4 lanes. us_per_message is the processor time of all parts, and
    of_first its ratio to the first line: it should not grow. model_*: the core's time, the state
    and the commit of a batch with 1 to 64 lanes, and the line through them.
    """
    from tests.bench.scale.cluster_rates import cluster_rates
    from tests.bench.scale.lane_costs import lane_costs

    with _root(folder, "dlx-scale-") as root:
        for figures in lane_costs(root / "model", min(batch, 20_000), batches):
            _print(figures, as_json=as_json)
        if not model_only:
            for figures in cluster_rates(root, messages, batch):
                _print(figures, as_json=as_json)
    return EXIT_OK


@app.command("front-state")
def front_state(
    resident: Annotated[int, typer.Option(help="Messages in the queues.", min=10)] = 1_000_000,
    history: Annotated[
        int, typer.Option(help="Messages that are consumed before a second round.", min=0)
    ] = 2_000_000,
    unrouted: Annotated[
        int, typer.Option(help="Records to no queue before a last round.", min=0)
    ] = 0,
    folder: Folder = None,
    *,
    as_json: AsJson = False,
) -> int:
    """Measure an AMQP front on Kafka that has many messages in its queues.

    Its memory; a stop with its snapshot; the time from a start to the first confirm, with and
    without a snapshot; and from kill -9 of the leader to the first confirm of a standby. Then the
    same again, with many consumed messages in the log; and with publishes that went to no queue,
    of which there can be far more.
    """
    from tests.bench.front_state import run

    with _sigterm_ends(), _root(folder, "dlx-front-") as root:
        for figures in run(root, resident, history, unrouted):
            _print(figures, as_json=as_json)
    return EXIT_OK


@app.command()
def redrive(
    letters: Letters = 10_000,
    kills: Kills = 20,
    rate: Annotated[float, typer.Option(help="Messages per second meanwhile.", min=1)] = 100,
    seed: Seed = 1,
    folder: Folder = None,
) -> int:
    """Redrive dead letters under load while the job, Kafka and clients are killed at random.

    Exit status: 1 unless every letter moved exactly once, its fate is known, and the balance
    closes.
    """
    from tests.bench.redrive import RedriveLoad, run_redrive

    with _root(folder, "dlx-redrive-") as root:
        report = run_redrive(root, RedriveLoad(letters, kills, rate, seed))
    for name, value in report._asdict().items():
        if name != "problems":
            print(f"{name} {value}")
    return _verdict(report.problems)


@contextmanager
def _sigterm_ends() -> Iterator[None]:
    """Let SIGTERM end the block in good order: what it has started ends with it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _root(folder: Path | None, prefix: str) -> Iterator[Path]:
    """The folder of a run: the one given, else a temporary one."""
    with tempfile.TemporaryDirectory(prefix=prefix) as scratch:
        root = Path(scratch) if folder is None else folder.absolute()
        root.mkdir(parents=True, exist_ok=True)
        yield root


def _verdict(problems: Collection[str]) -> int:
    """Print what is wrong; return the exit status."""
    for problem in problems:
        print(f"problem: {problem}")
    print("NOT everything is accounted for" if problems else "everything is accounted for")
    return EXIT_FINDINGS if problems else EXIT_OK
