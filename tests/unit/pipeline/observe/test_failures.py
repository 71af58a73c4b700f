"""The terminal's output when Spark fails."""

import io
import logging
from typing import Any

import pytest
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer

from streaming.pipeline.observe.failures import PY4J_LOG, divert_tracebacks


@pytest.fixture
def shown():
    return io.StringIO()


@pytest.fixture
def root(shown, tmp_path, monkeypatch):
    logger = logging.getLogger()
    terminal = logging.StreamHandler(shown)
    monkeypatch.setattr(logger, "handlers", [terminal])  # not those that other tests left
    level = logger.level
    logger.setLevel(logging.INFO)
    divert_tracebacks([terminal], tmp_path)
    yield logger
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        del server.handle_error
    for handler in logger.handlers:
        handler.close()
    logger.setLevel(level)


def test_tracebacks_of_py4j_go_to_a_file_and_everything_else_to_the_terminal(tmp_path, root, shown):
    by_the_root_logger = root.makeRecord(
        "root", logging.INFO, "site-packages/py4j/java_gateway.py", 1, "sending", (), None
    )
    failure = ConnectionResetError()

    logging.getLogger("py4j.clientserver").error("in the Python proxy", exc_info=failure)
    root.handle(by_the_root_logger)
    logging.getLogger("dlx").info("stopped")

    assert shown.getvalue() == "stopped\n"
    kept = (tmp_path / PY4J_LOG).read_text()
    assert "ConnectionResetError" in kept
    assert "sending" in kept


def test_output_of_pysparks_servers_goes_to_the_file(tmp_path, root, shown, capsys):
    def handle(server: Any) -> None:
        try:
            int("no number")
        except ValueError:
            server.handle_error(server, None, None)

    handle(AccumulatorTCPServer)

    assert (shown.getvalue(), capsys.readouterr().err) == ("", "")
    assert "no number" in (tmp_path / PY4J_LOG).read_text()


def test_without_failures_there_is_no_file(tmp_path, root, shown):
    logging.getLogger("dlx").info("running")

    assert shown.getvalue() == "running\n"
    assert list(tmp_path.iterdir()) == []
