"""What the terminal shows when Spark fails."""

import io
import logging

import pytest

from streaming.pipeline.observe.failures import PY4J_LOG, divert_py4j_records


@pytest.fixture
def shown():
    return io.StringIO()


@pytest.fixture
def root(shown, tmp_path):
    logger = logging.getLogger()
    level, before = logger.level, list(logger.handlers)
    logger.setLevel(logging.INFO)
    terminal = logging.StreamHandler(shown)
    logger.addHandler(terminal)
    divert_py4j_records(terminal, tmp_path)
    added = [each for each in logger.handlers if each not in before]
    yield logger
    for handler in added:
        logger.removeHandler(handler)
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


def test_without_failures_there_is_no_file(tmp_path, root, shown):
    logging.getLogger("dlx").info("running")

    assert shown.getvalue() == "running\n"
    assert list(tmp_path.iterdir()) == []
