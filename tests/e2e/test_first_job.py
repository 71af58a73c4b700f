"""The pages of a first job as a new user follows them: a home without files, and only the page.

`./dlx docs --record` runs this with DLX_RENEW_DOCS=1: then the page gets what was printed.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from streaming.embedded.kafka.ports import free_port
from streaming.user_folders import user_cache_folder
from tests.fixtures.dlx_process import DlxProcess
from tools.docs.__main__ import RENEW
from tools.docs.markdown import all_blocks, replace
from tools.docs.sessions import Sessions, steps

AMQP_PAGE = "docs/first-job.md"
KAFKA_PAGE = "docs/first-job-kafka.md"
COLUMNS = 80
BLOCKS = [block for block in all_blocks() if block.page in {AMQP_PAGE, KAFKA_PAGE}]
PROGRAMS = ("send.py", "receive.py")
"""The files as which the page says to save its programs, in their order."""

HOST = 'pika.ConnectionParameters("localhost")'
KEPT = {"checkpoints", "dlx.toml", "kafka", "logs", "run.log", "tables"}


class NewUser:
    """A home without files, and the folder of the first job in it."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "shop"
        self.folder.mkdir()
        self.environment = {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(user_cache_folder().parent),  # jars are not downloaded again
            "XDG_STATE_HOME": str(home / "state"),
            "COLUMNS": str(COLUMNS),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        self.shell = Sessions(self.folder, patient=True, environment=self.environment)
        self.amqp_port = free_port()
        self.running: list[DlxProcess] = []

    def start(self) -> None:
        """Run the job with its Kafka, on a port that is free here."""
        file = self.folder / "dlx.toml"
        text = file.read_text()
        assert "localhost:9092" in text
        file.write_text(text.replace("localhost:9092", f"localhost:{free_port()}"))
        self._run("run.log", "running: tables in", "run", "--with-kafka")

    def start_front(self) -> None:
        """Serve RabbitMQ's clients, on a port that is free here."""
        port = str(self.amqp_port)
        self._run("front.log", "listening on amqp://127.0.0.1:", "amqp", "--port", port)

    def save(self, program: str) -> None:
        """Save a program; it connects to that port."""
        assert HOST in program
        with_port = HOST.replace(")", f", {self.amqp_port})")
        free = [name for name in PROGRAMS if not (self.folder / name).exists()]
        (self.folder / free[0]).write_text(program.replace(HOST, with_port))

    def stop(self) -> None:
        """Ctrl-C in each terminal, the last first."""
        for process in reversed(self.running):
            process.signal(signal.SIGINT, group=True)
            assert process.wait() == 0, process.output()

    def _run(self, log: str, until: str, *command: str) -> None:
        process = DlxProcess(
            *command,
            out=self.folder / log,
            environment={**self.environment, "DLX_CONFIG": str(self.folder / "dlx.toml")},
        )
        self.running.append(process)
        process.until_it_says(until, timeout_s=400)


@pytest.fixture
def new_user(tmp_path):
    user = NewUser(tmp_path)
    yield user
    for process in user.running:
        process.kill()


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "kept"),
    [(AMQP_PAGE, {*PROGRAMS, "front.log"}), (KAFKA_PAGE, {"definitions.json"})],
)
def test_a_new_user_runs_a_first_job_by_the_page_alone(new_user, page, kept):
    for block in [each for each in BLOCKS if each.page == page]:
        match block.language, block.text.strip():
            case "json", text:
                (new_user.folder / "definitions.json").write_text(text)
            case "sh", "dlx run --with-kafka":
                new_user.start()
            case "sh", "dlx amqp":
                new_user.start_front()
            case "python", _:
                new_user.save(block.text)
            case "console", _ if os.environ.get(RENEW):
                replace(current(block), new_user.shell.renewed(block.text))
            case "console", _:
                assert new_user.shell.differences(block.text) == []

    new_user.stop()
    assert {path.name for path in new_user.folder.iterdir()} == KEPT | kept


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_line_of_the_page_fits_a_terminal(block):
    lines = block.text.splitlines()
    if block.language == "console":
        lines = [
            line for step in steps(block.text) for line in (step.command, *step.output.splitlines())
        ]

    assert [line for line in lines if len(line) > COLUMNS] == []


def current(block):
    """A block where it stands now: blocks above it may have been renewed."""
    return next(
        each for each in all_blocks() if each.page == block.page and each.text == block.text
    )
