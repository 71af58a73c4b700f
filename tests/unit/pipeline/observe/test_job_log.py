"""The log of a job: text or JSON lines, on stderr and in the log folder."""

import json
import logging
import os
import subprocess
import sys

import pytest

from streaming.pipeline.observe.job_log import FIELDS, FolderHandler, JsonFormatter

PROGRAM = """
import logging, os, sys, threading, warnings
from pathlib import Path
from streaming.pipeline.observe.job_log import JobLog

log = JobLog("json")
folder = Path(sys.argv[1])
log.keep_in(folder)
logger = logging.getLogger("dlx")
logger.info("before the folder exists")
folder.mkdir()
print("printed\\nin two lines")
os.write(2, b"from a C library: \\xff\\n")
warnings.warn("a warning of Python")
logging.getLogger("py4j").error("traffic of py4j")
try:
    {}["key"]
except KeyError:
    logger.exception("handled")
thread = threading.Thread(target=lambda: [][0])
thread.start()
thread.join()
logger.info("batch", extra={"fields": {"event": "batch", "seconds": {"fold": 0.5}}})
if sys.argv[2] == "exit":
    print("the last words", file=sys.stderr)
    sys.exit(2)
raise ValueError("not caught")
"""


@pytest.fixture(params=["exit", "raise"])
def ended(request, tmp_path):
    """The lines on stderr of a program whose log is JSON, by how it ends."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "logs"), request.param]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.stdout == b""
    lines = [json.loads(line) for line in done.stderr.decode().splitlines()]
    return request.param, done.returncode, lines, tmp_path / "logs"


def named(lines, text):
    [line] = [line for line in lines if text in line["message"]]
    return line


def test_everything_that_a_process_writes_is_json(ended):
    how, status, lines, logs = ended

    assert named(lines, "before the folder exists")["level"] == "INFO"
    assert (named(lines, "printed")["logger"], named(lines, "in two")["level"]) == (
        "stdout",
        "INFO",
    )
    assert named(lines, "from a C library: \ufffd")["logger"] == "stderr"
    assert named(lines, "a warning of Python")["level"] == "WARNING"
    assert "KeyError: 'key'" in named(lines, "handled")["exception"]
    assert "IndexError" in named(lines, "list index out of range")["exception"]
    assert named(lines, "batch")["seconds"] == {"fold": 0.5}
    assert [line for line in lines if "py4j" in line["message"]] == []
    if how == "exit":
        assert status == 2
        assert named(lines, "the last words")["level"] == "ERROR"
    else:
        assert status == 1
        assert "ValueError: not caught" in named(lines, "not caught")["exception"]
    kept = [json.loads(line) for line in (logs / "dlx.log").read_text().splitlines()]
    assert sorted(map(str, kept)) == sorted(map(str, lines))
    assert "traffic of py4j" in (logs / "py4j.log").read_text()


def test_a_refused_start_leaves_no_folder(tmp_path):
    handler = FolderHandler(tmp_path / "logs" / "dlx.log")

    handler.emit(logging.makeLogRecord({"msg": "refused"}))
    handler.close()

    assert list(tmp_path.iterdir()) == []


def test_the_log_is_not_for_everybody(tmp_path):
    handler = FolderHandler(tmp_path / "dlx.log")
    before = os.umask(0)
    try:
        handler.emit(logging.makeLogRecord({"msg": "started"}))
    finally:
        os.umask(before)
    handler.close()

    assert (tmp_path / "dlx.log").stat().st_mode & 0o777 == 0o640


def test_a_record_becomes_one_line_with_its_members():
    record = logging.makeLogRecord(
        {"name": "dlx", "levelname": "INFO", "created": 0.0125, "msg": "a\nb %s", "args": ("ü",)}
    )
    setattr(record, FIELDS, {"message": "batch 7", "path": JsonFormatter})

    line = JsonFormatter().format(record)

    assert "\n" not in line
    found = json.loads(line)
    assert found["time"] == "1970-01-01T00:00:00.012Z"
    assert (found["logger"], found["message"]) == ("dlx", "batch 7")
    assert "JsonFormatter" in found["path"]
