"""All families of a job's metrics."""

from typing import Final

from streaming.exposition.collector import Exposition
from streaming.metrics.dlx import OWN
from streaming.metrics.figures import JobFigures
from streaming.metrics.queue_health import QUEUE_HEALTH
from streaming.metrics.rabbitmq import RABBITMQ

JOB: Final = Exposition[JobFigures]((*RABBITMQ, *OWN, *QUEUE_HEALTH))
"""What a job exposes."""
