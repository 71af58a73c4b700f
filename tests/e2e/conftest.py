"""The services that these tests share."""

from tests.fixtures.services import embedded_kafka, new_topic, spark

__all__ = ["embedded_kafka", "new_topic", "spark"]
