"""The services that these tests share."""

from tests.fixtures.services import embedded_kafka, equal_workers, new_topic, quick_java, spark

__all__ = ["embedded_kafka", "equal_workers", "new_topic", "quick_java", "spark"]
