"""Scenarios through a pipeline of their own: a Kafka and a Spark that live as long as the call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streaming.embedded.kafka.broker import EmbeddedKafka
from streaming.scenario.document import Scenario
from streaming.scenario.play import Outcome
from streaming.simulation.run import SHUFFLE_PARTITIONS, PipelineRun, RunPlace
from streaming.spark.session import SessionConfig, make_session, stop_session
from topology.values import Compat

if TYPE_CHECKING:
    from rich.console import Console


def play_through_pipeline(
    scenarios: Sequence[Scenario], compat: Compat, progress: Console | None = None
) -> list[Outcome]:
    """The outcome of each scenario; everything that was made for it is gone afterwards.

    Args:
        progress: shows bars while jars are downloaded.

    Raises:
        DlxError: Kafka, Spark or the job does not work; in words.
    """
    if not scenarios:
        return []
    with TemporaryDirectory(prefix="dlx-simulate-") as folder:
        directory = Path(folder)
        with EmbeddedKafka(directory / "kafka", progress=progress) as kafka:
            run = PipelineRun(scenarios, compat, RunPlace(directory, kafka.bootstrap_servers))
            run.write_log()
            config = SessionConfig(
                work_dir=directory / "work",
                log_dir=directory / "logs",
                shuffle_partitions=SHUFFLE_PARTITIONS,
            )
            spark = make_session(config, progress)
            try:
                run.run_job(spark)
            finally:
                stop_session(spark)
            return run.outcomes()
