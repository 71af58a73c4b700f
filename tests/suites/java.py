"""The tests that RabbitMQ's Java client has for the broker itself."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.suites.catalogue import SUPPORT, JavaSuite
from tests.suites.debian import debian_source
from tests.suites.outcomes import Outcomes, SuiteError, of_case, run, some, test_cases, unpacked


def run_java(suite: JavaSuite, folder: Path, only: Sequence[str]) -> Outcomes:
    """Run a suite; see `run_suite`."""
    source = folder / "source"
    if not (source / "target" / "test-classes").exists():
        unpacked(debian_source(suite.archive, folder), folder)
    shutil.copy(SUPPORT / suite.pom, source / "pom.xml")
    control = folder / "rabbitmqctl"
    text = (SUPPORT / "rabbitmqctl.py").read_text("utf-8")
    control.write_text(f"#!{sys.executable} -IS\n{text}", "utf-8")
    control.chmod(0o755)
    chosen = only or (f"-Dtest={','.join(suite.tests)}",)
    log = folder / "log.txt"
    found = source / "target" / "surefire-reports"
    shutil.rmtree(found, ignore_errors=True)
    command = ["mvn", "-B", "-q", f"-Drabbitmqctl={control}", *chosen, "test"]
    run(command, source, {}, log)
    reports = sorted(found.glob("TEST-*.xml"))
    if not reports:
        raise SuiteError(f"the suite ended without results: {log}")
    outcomes: Outcomes = {}
    for report in reports:
        for case in test_cases(report):
            name = f"{str(case.get('classname')).rpartition('.')[2]}.{case.get('name')}"
            outcomes[name] = of_case(case)
    return some(outcomes, log)
