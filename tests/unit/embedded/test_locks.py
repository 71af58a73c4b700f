import re

import pytest
from jgo.env import LockFile

from streaming.embedded.jvm.pinned_jars import lock_file, read_lock

BOTH = pytest.mark.parametrize("which", ["kafka", "spark", "s3", "azure", "gcs"])


@BOTH
def test_a_lock_contains_no_address(which):
    assert re.findall(r"://|\bwww\.|\.(?:com|net|io)/", lock_file(which).read_text()) == []


@BOTH
def test_jgo_can_read_a_lock(which):
    ours = read_lock(lock_file(which))
    theirs = LockFile.load(lock_file(which)).dependencies

    assert [
        (jar.group, jar.artifact, jar.version, jar.classifier or None, jar.sha256) for jar in ours
    ] == [(jar.groupId, jar.artifactId, jar.version, jar.classifier, jar.sha256) for jar in theirs]


@BOTH
def test_a_lock_pins_every_jar_once_with_its_checksum(which):
    jars = read_lock(lock_file(which))

    assert len({(jar.group, jar.artifact) for jar in jars}) == len(jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and jar.size_bytes > 0 for jar in jars)


def test_the_locked_versions_belong_together():
    kafka = {jar.artifact: jar.version for jar in read_lock(lock_file("kafka"))}
    spark = {jar.artifact: jar.version for jar in read_lock(lock_file("spark"))}

    ours = {version for name, version in kafka.items() if name.startswith("kafka")}
    assert ours == {"4.3.1"}
    assert (spark["spark-sql-kafka-0-10_2.13"], spark["kafka-clients"]) == ("4.2.0", "3.9.2")
    assert {version for name, version in spark.items() if name.startswith("delta")} == {"4.4.0"}
