"""Jars from the registry into an empty cache, and how fast a full cache answers."""

import time

import pytest
from jgo.env import LockFile

from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.pinned_jars import lock_file


@pytest.mark.parametrize("which", ["kafka", "spark"])
def test_an_empty_cache_is_filled_with_the_locked_jars_and_then_used(which, tmp_path):
    cold = resolve_jars(which, tmp_path)
    warm_s = []
    for _ in range(5):
        began = time.perf_counter()
        assert resolve_jars(which, tmp_path) == cold
        warm_s.append(time.perf_counter() - began)

    assert LockFile.load(lock_file(which)).verify_checksums(tmp_path / "jars") == []
    assert sorted(path for path in tmp_path.rglob("*.jar")) == sorted(cold)
    assert min(warm_s) < 0.1
