"""The broker as a pure function of a log: no Spark, no Kafka, no clock. Begin at `shard.py`."""
