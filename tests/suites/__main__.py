"""Run suites of client libraries: `python -m tests.suites kombu amqp091-go --url amqp://...`.

Without --url, `dlx amqp --memory` is started on a free port; with --kafka, `dlx amqp` on a Kafka of
its own. Tests that fail are compared with expected.toml, which is the same for both; the exit
status is 1 if anything differs.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from streaming.amqp.vhosts import MAX_MESSAGE_SIZE
from streaming.config import JobConfig, show_config
from streaming.config.flow import FlowSettings
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.vhosts import VhostSettings
from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.embedded.kafka.ports import LOOPBACK, free_port
from streaming.user_folders import user_cache_folder
from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until
from tests.suites.catalogue import SUITES, Broker, Suite, at_usual_ports
from tests.suites.expectations import compare, expected
from tests.suites.outcomes import SuiteError
from tests.suites.running import run_suite


def main() -> int:
    """Run the suites asked for; the exit status says whether they did what is expected."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--url", help="of a running broker with user guest and vhost /")
    parser.add_argument(
        "--broker", choices=["dlx", "rabbitmq"], default="dlx", help="what answers there"
    )
    parser.add_argument("--kafka", action="store_true", help="start ours on a Kafka, without a job")
    parser.add_argument("--folder", type=Path, default=user_cache_folder() / "suites")
    parser.add_argument(
        "--only", nargs=argparse.REMAINDER, default=[], help="arguments of pytest or go test"
    )
    options = parser.parse_args()
    differs = False
    for name in options.suites or SUITES:
        folder = (options.folder / name).absolute()
        try:
            with _broker(options.url, folder, SUITES[name], on_kafka=options.kafka) as broker:
                outcomes = run_suite(SUITES[name], broker, folder, options.only)
        except SuiteError as error:
            sys.stderr.write(f"{name}: {error}\n")
            differs = True
            continue
        (folder / f"outcomes-{options.broker}.json").write_text(json.dumps(outcomes, indent=1))
        found = compare(outcomes, expected(name), options.broker)
        counts = ", ".join(f"{count} {word}" for word, count in found.counts.items() if count)
        sys.stdout.write(f"{name}: {counts}\n")
        for test in found.unexpected_failures:
            sys.stdout.write(f"  fails, and is not expected to: {test}\n")
        for test in found.unexpected_passes:
            sys.stdout.write(f"  passes, and is expected to fail: {test}\n")
        for test in () if options.only else found.not_run:
            sys.stdout.write(f"  was not run, and is expected to be: {test}\n")
        unexpected = found.unexpected_failures or found.unexpected_passes
        differs = differs or bool(unexpected or (found.not_run and not options.only))
    return 1 if differs else 0


@contextmanager
def _broker(url: str | None, folder: Path, suite: Suite, *, on_kafka: bool) -> Iterator[Broker]:
    """The broker at a URL, or a new one of ours, with its output in the folder."""
    if url is not None:
        yield Broker(url)
        return
    folder.mkdir(parents=True, exist_ok=True)
    usual = at_usual_ports(suite)  # such suites know no other ports
    port = 5672 if usual else free_port()
    options = ["--port", str(port), *(("--management", "15672") if usual else ())]
    with _kept(on_kafka=on_kafka) as where:
        ours = Process(folder, "broker", "streaming.cli", "amqp", *where, *options)
        ours.log.unlink(missing_ok=True)
        ours.start()
        try:
            ready = ("listening on", *(("management at",) if usual else ()))
            wait_until(lambda: all(each in ours.log_end() for each in ready), ours.log_end)
            yield Broker(f"amqp://guest:guest@{LOOPBACK}:{port}/")
            ours.check()
        finally:
            ours.stop()


@contextmanager
def _kept(*, on_kafka: bool) -> Iterator[list[str]]:
    """Where our broker keeps what it has, as options of it: in memory, or on a new Kafka."""
    if not on_kafka:
        yield ["--memory"]
        return
    with TemporaryDirectory(prefix="dlx-suites-") as folder:
        root = Path(folder)
        with EmbeddedKafka(root / "kafka") as kafka:
            config = JobConfig(
                job=JobSettings(
                    checkpoint_location=str(root / "checkpoints"),
                    tables_location=str(root / "tables"),
                ),
                kafka=KafkaSettings(
                    bootstrap_servers=(kafka.bootstrap_servers,),
                    max_message_bytes=MAX_MESSAGE_SIZE + (2 << 20),
                ),
                flow=FlowSettings(max_body_bytes=MAX_MESSAGE_SIZE),  # as in memory
                vhosts={"/": VhostSettings(sequenced=True)},
            )
            file = root / "dlx.toml"
            file.write_text(show_config(config))
            yield ["--config", str(file)]


if __name__ == "__main__":
    sys.exit(main())
