"""The continuous job: Kafka -> Spark -> Delta. Begin at `job.py`."""
