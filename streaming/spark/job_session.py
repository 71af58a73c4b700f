"""The Spark session that a job's configuration asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streaming.config import reveal
from streaming.spark.session import SessionConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.config import JobConfig


def session_config(config: JobConfig, environ: Mapping[str, str]) -> SessionConfig:
    """What the session is made from.

    Raises:
        InvalidConfigError: a secret is not to be had.
    """
    job = config.job
    work = Path(job.log_dir)
    return SessionConfig(
        work_dir=work / "work",
        log_dir=work,
        master=job.master,
        driver_memory=job.driver_memory,
        shuffle_partitions=job.shuffle_partitions,
        properties=reveal(job.spark_properties, "job.spark_properties", environ),
    )
