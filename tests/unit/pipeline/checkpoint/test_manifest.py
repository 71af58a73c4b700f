"""The numbers in the manifest are assigned once and never change."""

from streaming.pipeline.checkpoint.manifest import (
    Manifest,
    read_manifest,
    spark_partition,
    write_manifest,
)


def test_a_topic_keeps_its_number_and_a_recreated_one_gets_another():
    numbers = Manifest(shuffle_partitions=2)

    given = [numbers.topic_number(one, "t") for one in ("c/1", "c/2", "c/1", "c/3")]

    assert given == [1, 2, 1, 3]


def test_shards_spread_evenly_over_the_shuffle_partitions():
    numbers = Manifest(shuffle_partitions=4)

    keys = [numbers.shard_key("/", lane) for lane in range(16)]

    assert len(set(keys)) == 16
    assert 0 not in keys
    assert [spark_partition(key, 4) for key in keys] == [0, 1, 2, 3] * 4
    assert keys == [numbers.shard_key("/", lane) for lane in range(16)]


def test_the_manifest_is_read_as_it_was_written(tmp_path):
    numbers = Manifest(shuffle_partitions=2, outcome_hash="abc")
    numbers.topic_number("c/1", "orders")
    numbers.shard_key("/", 0)

    write_manifest(tmp_path / "new", numbers)

    assert read_manifest(tmp_path / "new") == numbers
    assert read_manifest(tmp_path) is None
