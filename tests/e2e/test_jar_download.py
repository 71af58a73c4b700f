"""Jars from the registry into an empty cache; a full one is only read (tests/unit/embedded)."""

import pytest
from jgo.env import LockFile

from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.pinned_jars import lock_file


@pytest.mark.parametrize("which", ["kafka", "spark"])
def test_an_empty_cache_is_filled_with_the_locked_jars_and_then_used(which, tmp_path):
    cold = resolve_jars(which, tmp_path)

    assert resolve_jars(which, tmp_path) == cold
    assert LockFile.load(lock_file(which)).verify_checksums(tmp_path / "jars") == []
    assert sorted(path for path in tmp_path.rglob("*.jar")) == sorted(cold)
