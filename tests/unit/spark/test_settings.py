"""Settings that depend on the master."""

import pytest

from streaming.spark.settings import with_retries


@pytest.mark.parametrize(
    ("master", "started"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[*,2]", "local[*,2]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_task_is_tried_as_often_as_one_of_a_cluster(master, started):
    assert with_retries(master) == started
