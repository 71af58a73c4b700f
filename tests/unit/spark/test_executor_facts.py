"""What an executor must have in common with the driver."""

import subprocess
import sys
from pathlib import Path

import pytest

from streaming.spark.executor_facts import (
    MISSING,
    TASK_PACKAGES,
    ExecutorMismatchError,
    Facts,
    check_here,
    facts_here,
    probe,
)

CHECKOUT = Path(__file__).resolve().parents[3]
DRIVER = Facts("3.11.9", "c0de", is_compiled=False, packages={"msgspec": "1", "pyarrow": "2"})

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
        ({"is_compiled": True}, ["not compiled"]),
        ({"packages": {"msgspec": "3", "pyarrow": "2"}}, ["msgspec", "3", "1"]),
        ({"packages": {"pyarrow": "2"}}, ["msgspec", MISSING]),
    ],
)
def test_a_difference_names_both_sides(changes, named):
    [words] = DRIVER.differences(DRIVER._replace(**changes))

    assert all(each in words for each in named)


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
