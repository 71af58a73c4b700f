"""Fetch a suite, run it against a broker, and return what each of its tests did."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.fixtures.archives import unpack
from tests.fixtures.wheel import UV
from tests.suites.catalogue import (
    SUPPORT,
    Broker,
    GoSuite,
    JavaSuite,
    ManagementSuite,
    NodeSuite,
    PythonSuite,
    RubySuite,
    Suite,
)
from tests.suites.debian import debian_source
from tests.suites.java import run_java
from tests.suites.management import run_management
from tests.suites.outcomes import (
    Outcomes,
    SuiteError,
    of_case,
    output,
    run,
    some,
    test_cases,
    unpacked,
)
from tests.suites.ruby import run_ruby

_TEST_TIMEOUT_S: Final = 300
_REDIS_TIMEOUT_S: Final = 30


def run_suite(suite: Suite, broker: Broker, folder: Path, only: Sequence[str] = ()) -> Outcomes:
    """Run a suite.

    Args:
        folder: its cache: an environment, the archive, and the log of the last run.
        only: further arguments of the test program, to choose tests.

    Raises:
        SuiteError: it cannot be fetched, or ended without results.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(suite, ManagementSuite):
        return run_management(suite, broker, folder, only)
    if isinstance(suite, JavaSuite):
        return run_java(suite, folder, only)
    if isinstance(suite, RubySuite):
        return run_ruby(suite, folder, only)
    if isinstance(suite, GoSuite):
        return _run_go(suite, broker, folder, only)
    if isinstance(suite, NodeSuite):
        return _run_node(suite, broker, folder, only)
    return _run_python(suite, broker, folder, only)


def _run_go(suite: GoSuite, broker: Broker, folder: Path, only: Sequence[str]) -> Outcomes:
    source = folder / "source"
    if not source.exists():
        text = output(["go", "mod", "download", "-json", suite.module], folder)
        shutil.copytree(json.loads(text)["Dir"], source)  # the module cache cannot be written
        for path in (source, *source.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
    names = re.findall(r"^func (Test\w+)\(", (source / suite.file).read_text("utf-8"), re.MULTILINE)
    chosen = only or ("-run", f"^({'|'.join(names)})$")
    package = f"./{Path(suite.file).parent}"
    command = ["go", "test", "-json", "-count=1", *suite.options, *chosen, package]
    environment = {suite.variable: broker.url}
    log = folder / "log.json"
    run(command, source, environment, log)
    outcomes: Outcomes = {}
    words = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    for line in log.read_text("utf-8", "replace").splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if "Test" in event and event["Action"] == "run":
            outcomes[event["Test"]] = "failed"  # unless it ends: a panic ends the program
        elif "Test" in event and event["Action"] in words:
            outcomes[event["Test"]] = words[event["Action"]]
    return some(outcomes, log)


def _run_node(suite: NodeSuite, broker: Broker, folder: Path, only: Sequence[str]) -> Outcomes:
    source = folder / "source"
    if not (source / "node_modules" / ".bin" / "mocha").exists():
        shutil.rmtree(source, ignore_errors=True)
        archive = folder / output(["npm", "pack", "--silent", suite.package], folder).strip()
        unpack(archive, folder)
        (folder / "package").rename(source)
        output(["npm", "install", "--no-save", *suite.requirements], source)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = ["node_modules/.bin/mocha", "--exit", "--reporter", "json", *suite.options]
    command += ["--reporter-option", f"output={report}", *suite.tests, *only]
    log = folder / "log.txt"
    run(command, source, {"URL": broker.url.rstrip("/")}, log)
    if not report.exists():
        raise SuiteError(f"the suite ended without results: {log}")
    found = json.loads(report.read_text("utf-8"))
    words = {"passes": "passed", "failures": "failed", "pending": "skipped"}
    outcomes = {test["fullTitle"]: word for kind, word in words.items() for test in found[kind]}
    return some(outcomes, log)


def _run_python(suite: PythonSuite, broker: Broker, folder: Path, only: Sequence[str]) -> Outcomes:
    python = _environment(suite, folder)
    source = _source(suite, broker, folder, python)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        str(python),
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--timeout={_TEST_TIMEOUT_S}",
    ]
    command += ["-o", "addopts=", "-o", "junit_family=xunit1", f"--junitxml={report}"]
    command += [*suite.tests, *only]
    environment = suite.environment(broker)
    log = folder / "log.txt"
    if suite.needs_redis:
        with _redis(folder) as port:
            backend = f"redis://127.0.0.1:{port}/0"
            environment |= {"REDIS_PORT": str(port), "TEST_BACKEND": backend}
            run(command, source, environment, log)
    else:
        run(command, source, environment, log)
    if not report.exists():
        raise SuiteError(f"the suite ended without results: {log}")
    outcomes: Outcomes = {}
    for case in test_cases(report):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        outcomes[name] = of_case(case)
    return some(outcomes, log)


def _environment(suite: PythonSuite, folder: Path) -> Path:
    """The Python of the suite's own environment, made at the first run."""
    python = folder / "venv" / "bin" / "python"
    wanted = "\n".join([suite.requirement, *suite.requirements, *suite.build])
    done = folder / "venv" / "installed.txt"
    if not done.exists() or done.read_text("utf-8") != wanted:
        output([str(UV), "venv", "-q", "--clear", "--python", "3.11", str(folder / "venv")], folder)
        install = [str(UV), "pip", "install", "-q", "--python", str(python), "pip"]
        output([*install, *wanted.splitlines()], folder)
        done.write_text(wanted, "utf-8")
    return python


def _source(suite: PythonSuite, broker: Broker, folder: Path, python: Path) -> Path:
    """The archive, unpacked afresh and prepared, without the package that it is a copy of."""
    if suite.archive is None:
        archive = next(folder.glob("*.tar.gz"), None)
    else:
        archive = debian_source(suite.archive, folder)
    if archive is None:
        search = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-q"]
        command = [str(python), "-m", "pip", "download", *options, suite.requirement]
        output(command, folder, {"PATH": search})
        archive = next(folder.glob("*.tar.gz"))
    source = unpacked(archive, folder)
    for place, file in suite.support.items():
        shutil.copy(SUPPORT / file, source / place)
    if suite.prepare is not None:
        suite.prepare(source, broker)
    return source


@contextmanager
def _redis(folder: Path) -> Iterator[int]:
    """A Redis server without a file, on a free port."""
    program = shutil.which("redis-server")
    if program is None:
        raise SuiteError("the suite needs redis-server in the PATH (apt-get install redis-server)")
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = int(chosen.getsockname()[1])
    command = [
        program,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            deadline_s = time.monotonic() + _REDIS_TIMEOUT_S
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError as error:
                    if time.monotonic() > deadline_s:
                        raise SuiteError("redis-server does not answer") from error
                    time.sleep(0.1)
            yield port
        finally:
            server.terminate()
