"""What all tests share: Hypothesis profiles, timeouts, totals of durations, a state folder."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=10, deadline=None)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

TESTS = Path(__file__).parent
SERVICE_TIMEOUT_S = 900
LONG_TIMEOUT_S = 3600


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests get Ctrl-C


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the tests, so that no demo of a test becomes the user's last demo."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with services, and long ones, more time than pyproject.toml allows."""
    for item in items:
        if item.get_closest_marker("timeout") is not None:
            continue
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
        elif item.path.relative_to(TESTS).parts[0] in {"spark", "e2e", "bench"}:
            item.add_marker(pytest.mark.timeout(SERVICE_TIMEOUT_S))


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
