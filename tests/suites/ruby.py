"""Suites of Ruby's clients, run by RSpec."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.suites.catalogue import SUPPORT, RubySuite
from tests.suites.debian import debian_source
from tests.suites.management import put
from tests.suites.outcomes import Outcomes, SuiteError, run, some, unpacked

_EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def run_ruby(suite: RubySuite, folder: Path, only: Sequence[str]) -> Outcomes:
    """Run a suite; see `run_suite`."""
    source = unpacked(debian_source(suite.archive, folder), folder)
    for user, password in suite.users.items():
        put(f"users/{user}", {"password": password, "tags": ""})
    for vhost, settings in suite.vhosts.items():
        put(f"vhosts/{vhost}", settings)
        for user in ("guest", *suite.users):
            rights = suite.permissions.get(user, _EVERYTHING)
            put(f"permissions/{vhost}/{user}", rights)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    options = ["-I", str(SUPPORT / "ruby"), "-I", "lib", "-I", "spec", "-r", "patience"]
    results = ["--no-color", "-f", "json", "-o", str(report), "-f", "documentation"]
    log = folder / "log.txt"
    run(["rspec", *options, *results, *(only or suite.tests)], source, {"CI": "true"}, log)
    if not report.exists():
        raise SuiteError(f"the suite ended without results: {log}")
    words = {"passed": "passed", "failed": "failed", "pending": "skipped"}
    examples = json.loads(report.read_text("utf-8"))["examples"]
    return some({each["full_description"]: words[each["status"]] for each in examples}, log)
