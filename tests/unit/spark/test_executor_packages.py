"""The archives that executors get: they suffice to run tasks."""

import subprocess
import sys
import zipfile

import pytest

from streaming.embedded.errors import EmbeddedError
from streaming.spark import executor_packages
from streaming.spark.executor_facts import facts_here
from streaming.spark.executor_packages import (
    distributions,
    environment_archive,
    python_path,
    write_code,
)

FACTS = """
from streaming.spark.executor_facts import ROOT, facts_here
print(ROOT.name, facts_here().code)
"""


def test_an_unpacked_archive_has_the_code_of_the_driver(tmp_path):
    archive = write_code(tmp_path / "dlx.zip")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "dlx")

    ran = subprocess.run(
        [sys.executable, "-c", FACTS],
        cwd=tmp_path,
        env={"PYTHONPATH": python_path(with_environment=True)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.split() == ["dlx", facts_here().code]


def test_a_compiled_core_is_sent_beside_its_sources(tmp_path, monkeypatch):
    build = tmp_path / "build"
    library = build / "streaming" / "broker" / "shard.cpython-311.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"elf")
    (build / "hash__mypyc.so").write_bytes(b"shared")
    monkeypatch.setattr(executor_packages, "in_use", lambda: True)
    monkeypatch.setattr(executor_packages, "_build_in_use", lambda: build)

    archive = write_code(tmp_path / "dlx.zip")

    names = zipfile.ZipFile(archive).namelist()
    assert {"streaming/broker/shard.cpython-311.so", "hash__mypyc.so"} < set(names)
    assert "streaming/broker/shard.py" in names


def test_the_environment_has_whole_packages_and_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setattr(executor_packages, "TASK_PACKAGES", ("cattrs",))

    first = environment_archive(tmp_path)
    written_ns = first.stat().st_mtime_ns
    again = environment_archive(tmp_path)

    names = zipfile.ZipFile(first).namelist()
    assert {"cattrs/__init__.py", "attr/__init__.py"} <= set(names)  # and what it needs
    assert again.stat().st_mtime_ns == written_ns


def test_spark_brings_its_own_packages():
    assert "pyspark" not in distributions(["pyspark", "attrs"])


def test_a_package_that_the_driver_lacks_cannot_be_sent():
    with pytest.raises(EmbeddedError, match="no-such-package"):
        distributions(["no-such-package"])


def test_an_extra_that_the_driver_lacks_is_not_sent(monkeypatch):
    monkeypatch.setattr(executor_packages, "EXTRAS", ("no-such-package",))

    assert set(distributions(["attrs", "no-such-package"])) == {"attrs"}
