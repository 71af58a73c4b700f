"""A job for each module, and clients of it."""

from tests.fixtures.jobs import channel, name, publisher, running_job, shared_connection
from tests.fixtures.services import embedded_kafka, spark

__all__ = [
    "channel",
    "embedded_kafka",
    "name",
    "publisher",
    "running_job",
    "shared_connection",
    "spark",
]
