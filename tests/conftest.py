"""What all tests share: Hypothesis profiles, timeouts, totals of durations, a state folder."""

import gc
import logging
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=10, deadline=None)
settings.register_profile("dev", max_examples=50, deadline=None)
for name, examples in (("ci", 50), ("nightly", 200)):
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("ci" if os.environ.get("CI") else "dev")

TESTS = Path(__file__).parent
SERVICE_TIMEOUT_S = 600
"""Several times what the longest of them takes: a test that hangs keeps a third of the run."""
LONG_TIMEOUT_S = 3600
SLOWEST = (
    "bench/test_pipeline_bench.py",
    "bench/test_redrive.py",
    "e2e/test_exactly_once.py",
    "e2e/test_demo.py",
    "e2e/test_kills_before_commit.py",
    "e2e/test_shared_storage.py",
    "e2e/test_engine_spark.py",
    "e2e/amqp/test_rebuild_on_kafka.py",
    "e2e/client/test_command_line.py",
    "e2e/test_run_command.py",
    "e2e/amqp/test_kafka_away.py",
    "e2e/amqp/test_redrive_on_kafka.py",
    "e2e/test_batch_retries.py",
    "e2e/console/test_attacks_in_a_browser.py",
    "e2e/console/test_visitors_story.py",
    "e2e/amqp/test_webhook.py",
    "e2e/amqp/test_kills.py",
    "e2e/test_first_job.py",
    "e2e/amqp/test_upgrade_on_kafka.py",
    "spark/test_cluster_session.py",
    "e2e/test_other_stores.py",
    "e2e/client/test_heartbeat.py",
    "e2e/console/test_pages_in_a_browser.py",
    "e2e/test_documentation.py",
    "e2e/amqp/test_log_trimming.py",
    "e2e/test_metrics.py",
    "e2e/client/test_down.py",
    "e2e/amqp/test_on_kafka.py",
    "e2e/test_embedded_kafka.py",
    "spark/test_sql_shell.py",
    "e2e/test_rebuild.py",
    "e2e/amqp/test_job_behind.py",
    "e2e/test_security.py",
    "e2e/test_flow_control.py",
    "spark/test_session_process.py",
    "e2e/test_lanes.py",
)
"""The files that take longest, in this order: begun at the end, one would keep a core idle."""


def pytest_runtest_setup() -> None:
    """Let Ctrl-C raise in each test and its processes.

    In the background of a shell it is ignored, and a command that a test called may have left a
    handler of its own.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the tests, so that no demo of a test becomes the user's last demo."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv("PYTHONFAULTHANDLER", "1")  # SIGABRT shows where a program hangs
        yield folder


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Leave the root logger as a test found it: `dlx run` in this process adds handlers to it."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest files and those with long tests first; give services more time."""
    with_long = {item.path for item in items if _takes_minutes(item)}
    turns = {TESTS / name: turn for turn, name in enumerate(SLOWEST, -len(SLOWEST))}
    items.sort(key=lambda item: turns.get(item.path, item.path not in with_long))
    for item in items:
        if item.get_closest_marker("timeout") is not None:
            continue
        if _takes_minutes(item):
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
        elif item.path.relative_to(TESTS).parts[0] in {"spark", "e2e", "bench"}:
            item.add_marker(pytest.mark.timeout(SERVICE_TIMEOUT_S))


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through thousands of tests and modules each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let the interpreter's end collect everything: C++ bindings complain of what is left."""
    gc.unfreeze()


def _takes_minutes(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("long", "nightly"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """With --durations, print the seconds that each folder of tests took."""
    if not config.getoption("durations"):
        return
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.split("::")[0].rpartition("/")[0]
                seconds[folder] += report.duration
                tests[folder].add(report.nodeid)
    terminalreporter.section("seconds and tests of each folder")
    for folder in sorted(seconds, key=lambda folder: -seconds[folder]):
        terminalreporter.write_line(f"{seconds[folder]:8.1f}s {len(tests[folder]):5}  {folder}")
