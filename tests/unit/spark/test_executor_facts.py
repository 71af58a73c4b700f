"""What an executor must have in common with the driver."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from streaming.spark.executor_facts import (
    MISSING,
    TASK_PACKAGES,
    Executor,
    ExecutorMismatchError,
    Facts,
    check_here,
    facts_here,
    mismatch,
    probe,
)

CHECKOUT = Path(__file__).resolve().parents[3]
DRIVER = Facts(
    "3.11.9",
    "c0de",
    packages={"msgspec": "1", "pyarrow": "2", "pyspark": "4.2.0"},
    places={},
)
INSTALL = 'job.executor_packages = "shipped"'

FACTS = """
import json
from streaming.spark.executor_facts import facts_here
print(json.dumps([facts_here().packages, facts_here().places]))
"""
LOADED = """
import sys
import streaming.pipeline.worker_daemon
from importlib import metadata

names = metadata.packages_distributions()
tops = {module.split(".")[0] for module in list(sys.modules)}
print(*sorted({name for top in tops for name in names.get(top, ())}))
"""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"python": "3.12.1"}, ["3.12.1", "3.11.9"]),
        ({"code": "0ther"}, ["0ther", "c0de"]),
        ({"packages": {**DRIVER.packages, "msgspec": "3"}}, ["msgspec", "3", "1"]),
        ({"packages": {**DRIVER.packages, "msgspec": MISSING}}, ["msgspec", MISSING]),
        ({"code": "0ther", "places": {"dlx": "/opt/old"}}, ["(in /opt/old)"]),
    ],
)
def test_a_difference_names_both_sides(changes, named):
    [words] = DRIVER.differences(DRIVER._replace(**changes))

    assert all(each in words for each in named)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"python": "3.12.1"}, "Name a Python 3.11 "),
        ({"code": "0ther"}, "another copy precedes it"),
        ({"packages": {**DRIVER.packages, "msgspec": "3"}}, INSTALL),
        ({"packages": {**DRIVER.packages, "pyspark": "4.1.0"}}, "workers with Spark 4.2.0"),
    ],
)
def test_each_kind_of_difference_has_a_remedy_of_its_own(changes, remedy):
    [found] = DRIVER.remedies(DRIVER._replace(**changes))

    assert remedy in found


@pytest.mark.parametrize("name", ["msgspec", "pyspark"])
def test_packages_that_are_sent_already_are_no_remedy(name):
    other = DRIVER._replace(packages={**DRIVER.packages, name: MISSING})

    refusal = mismatch(DRIVER._replace(ships_packages=True), [Executor("executor 0 on h", other)])

    assert refusal is not None
    assert f"executor 0 on h: {name} is {MISSING}, and" in refusal
    assert INSTALL not in refusal


def test_a_package_counts_as_it_is_imported(tmp_path):
    """Like pyspark in Spark's own distribution, before one that pip has installed."""
    with zipfile.ZipFile(tmp_path / "spark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "__version__ = '4.1.7'")
    (tmp_path / "msgspec.py").write_text("raise ImportError('wrong ELF class')")
    (tmp_path / "hdfs_native.py").touch()

    ran = subprocess.run(
        [sys.executable, "-c", FACTS],
        cwd=CHECKOUT,
        env={"PYTHONPATH": f"{tmp_path / 'spark.zip'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )

    packages, places = json.loads(ran.stdout)
    assert (packages["pyspark"], places["pyspark"]) == ("4.1.7", str(tmp_path / "spark.zip"))
    assert packages["msgspec"] == "broken (wrong ELF class)"
    assert (packages["hdfs-native"], places["hdfs-native"]) == (
        "of an unknown version",
        str(tmp_path),
    )
    assert packages["attrs"] == facts_here().packages["attrs"]


def test_another_patch_release_of_python_makes_no_difference():
    assert DRIVER.differences(DRIVER._replace(python="3.11.2")) == []


def test_an_extra_that_the_driver_lacks_makes_no_difference():
    driver = DRIVER._replace(packages={**DRIVER.packages, "hdfs-native": MISSING})

    assert (
        driver.differences(DRIVER._replace(packages={**DRIVER.packages, "hdfs-native": "1"})) == []
    )


def test_a_worker_with_other_packages_refuses_its_first_task():
    wanted = facts_here()._replace(packages={**facts_here().packages, "pyarrow": "0.1"})

    check_here(None)
    check_here(facts_here())
    with pytest.raises(ExecutorMismatchError, match=r"pyarrow .* 0\.1"):
        check_here(wanted._replace(code="another job's"))


def test_the_first_task_tells_what_this_process_has():
    [(_name, found)] = probe(iter(()))

    assert Facts(*found) == facts_here()
    assert MISSING not in facts_here().packages.values()


def test_the_list_of_packages_has_all_that_a_worker_loads():
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    loaded = {name.lower().replace("_", "-") for name in ran.stdout.split()}
    brought = {"py4j", "python-dateutil", "six", "tzdata", "typing-extensions", "arro3-core"}
    brought |= {"pytz", "setuptools"}  # only if they are there

    assert loaded - brought - set(TASK_PACKAGES) == set()
