"""Suites of clients of the management API: of Go modules and crates."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx2

from tests.suites.catalogue import Broker, ManagementSuite
from tests.suites.outcomes import Outcomes, SuiteError, output, run, some, test_cases

ENDPOINT: Final = "http://localhost:15672"
API: Final = f"{ENDPOINT}/api"
_TERRAFORM: Final = "github.com/hashicorp/terraform@v1.5.7"
_CARGO: Final = """[package]
name = "fetch"
version = "0.1.0"
edition = "2021"

[dependencies]
{name} = "={version}"
"""
_LINE: Final = re.compile(
    r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE
)
_ENDED: Final = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) ", re.MULTILINE)
_WORDS: Final = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def run_management(
    suite: ManagementSuite, _broker: Broker, folder: Path, only: Sequence[str]
) -> Outcomes:
    """Run a suite; see `run_suite`."""
    _make_ready(suite)
    kinds = {"ginkgo": _run_ginkgo, "crate": _run_crate, "terraform": _run_terraform}
    return kinds[suite.kind](suite, folder, only)


def _make_ready(suite: ManagementSuite) -> None:
    """Make what the suite expects to find, as its own scripts do with rabbitmqctl."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    vhost = quote(suite.vhost, safe="")
    put(f"vhosts/{vhost}", {})
    put(f"permissions/{vhost}/guest", everything)
    put(f"users/{suite.user}", {"password": suite.user, "tags": suite.user})
    put(f"permissions/%2F/{suite.user}", everything)
    put("cluster-name", {"name": "rabbitmq@localhost"})


def put(path: str, body: Mapping[str, str]) -> None:
    """Make something over the management API."""
    with httpx2.Client(auth=("guest", "guest"), trust_env=False, timeout=30) as client:
        client.put(f"{API}/{path}", json=dict(body)).raise_for_status()


def _module(suite: ManagementSuite, folder: Path) -> Path:
    """The sources of the Go module."""
    source = folder / "source"
    if not source.exists():
        text = output(["go", "mod", "download", "-json", suite.package], folder)
        _copy(Path(json.loads(text)["Dir"]), source)
    return source


def _run_terraform(suite: ManagementSuite, folder: Path, only: Sequence[str]) -> Outcomes:
    """Run the provider's acceptance tests with a Terraform that is built once, in ten minutes."""
    source = _module(suite, folder)
    terraform = folder / "bin" / "terraform"
    if not terraform.exists():
        output(["go", "install", _TERRAFORM], folder, {"GOBIN": str(terraform.parent)})
    environment = {
        "TF_ACC": "1",
        "TF_ACC_TERRAFORM_PATH": str(terraform),
        "CHECKPOINT_DISABLE": "1",  # it would ask whether there is a later one
        "RABBITMQ_ENDPOINT": ENDPOINT,
        "RABBITMQ_USERNAME": "guest",
        "RABBITMQ_PASSWORD": "guest",
    }
    log = folder / "log.txt"
    run(["go", "test", "-v", "-count=1", *only, "./rabbitmq"], source, environment, log)
    words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    found = _ENDED.findall(log.read_text("utf-8", "replace"))
    return some({name: words[word] for word, name in found}, log)


def _run_ginkgo(suite: ManagementSuite, folder: Path, only: Sequence[str]) -> Outcomes:
    source = _module(suite, folder)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        "go",
        "test",
        "-count=1",
        ".",
        f"-ginkgo.junit-report={report}",
        *suite.options,
        *only,
    ]
    log = folder / "log.txt"
    run(command, source, {}, log)
    if not report.exists():
        raise SuiteError(f"the suite ended without results: {log}")
    outcomes: Outcomes = {}
    for case in test_cases(report):
        words = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}
        name = str(case.get("name"))
        if name.startswith("[It]"):
            outcomes[name.removeprefix("[It] ")] = words.get(str(case.get("status")), "failed")
    return some(outcomes, log)


def _run_crate(suite: ManagementSuite, folder: Path, only: Sequence[str]) -> Outcomes:
    source = _crate(suite, folder)
    environment = {"CARGO_TARGET_DIR": str(folder / "target"), "CARGO_PROFILE_TEST_DEBUG": "0"}
    log = folder / "log.txt"
    chosen = [*only, "--", "--test-threads=1"]
    command = [
        "cargo",
        "test",
        "--all-features",
        "--no-fail-fast",
        "--test",
        "integration",
        *chosen,
    ]
    run(command, source, environment, log)
    text = log.read_text("utf-8", "replace")
    return some({name: _WORDS[word] for name, word in _LINE.findall(text)}, log)


def _crate(suite: ManagementSuite, folder: Path) -> Path:
    """The sources of the crate, which cargo fetches as a dependency of a package without code."""
    source = folder / "source"
    if source.exists():
        return source
    name, _, version = suite.package.partition("@")
    fetching = folder / "fetch"
    (fetching / "src").mkdir(parents=True, exist_ok=True)
    (fetching / "src" / "lib.rs").touch()
    (fetching / "Cargo.toml").write_text(_CARGO.format(name=name, version=version), "utf-8")
    metadata = json.loads(output(["cargo", "metadata", "--format-version", "1"], fetching))
    for package in metadata["packages"]:
        if package["name"] == name and package["version"] == version:
            _copy(Path(package["manifest_path"]).parent, source)
            shutil.rmtree(source / ".cargo", ignore_errors=True)  # it has dependencies optimised
            return source
    raise SuiteError(f"cargo has not fetched {suite.package}")


def _copy(sources: Path, place: Path) -> None:
    """Copy sources that a cache keeps, and let them be written to."""
    shutil.copytree(sources, place)
    for path in (place, *place.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
