"""docs/first-job.md as a new user follows it: a home without files, a folder, and only the page.

`./dlx docs --record` runs this with DLX_RENEW_DOCS=1: then the page gets what was printed.
"""

import os
import signal
from pathlib import Path

import pytest

from streaming.embedded.kafka.ports import free_port
from streaming.user_folders import user_cache_folder
from tests.fixtures.dlx_process import DlxProcess
from tools.docs.__main__ import RENEW
from tools.docs.markdown import all_blocks, replace
from tools.docs.sessions import Sessions, steps

PAGE = "docs/first-job.md"
COLUMNS = 80
BLOCKS = [block for block in all_blocks() if block.page == PAGE]


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
        }
        self.shell = Sessions(self.folder, patient=True, environment=self.environment)
        self.job: DlxProcess | None = None

    def start(self) -> None:
        """Run the job with its Kafka, on a port that is free here."""
        file = self.folder / "dlx.toml"
        text = file.read_text()
        assert "localhost:9092" in text
        file.write_text(text.replace("localhost:9092", f"localhost:{free_port()}"))
        self.job = DlxProcess(
            *("run", "--with-kafka"),
            out=self.folder / "run.log",
            environment={**self.environment, "DLX_CONFIG": str(file)},
        )
        self.job.until_it_says("running: tables in", timeout_s=400)


@pytest.fixture
def new_user(tmp_path):
    user = NewUser(tmp_path)
    yield user
    if user.job is not None:
        user.job.kill()


def test_a_new_user_runs_a_first_job_by_the_page_alone(new_user):
    for block in BLOCKS:
        match block.language, block.text.strip():
            case "json", text:
                (new_user.folder / "definitions.json").write_text(text)
            case "sh", "dlx run --with-kafka":
                new_user.start()
            case "console", _ if os.environ.get(RENEW):
                replace(current(block), new_user.shell.renewed(block.text))
            case "console", _:
                assert new_user.shell.differences(block.text) == []

    new_user.job.signal(signal.SIGINT, group=True)
    assert new_user.job.wait() == 0, new_user.job.output()
    assert {path.name for path in new_user.folder.iterdir()} == {
        *("definitions.json", "dlx.toml", "run.log"),
        *("checkpoints", "kafka", "logs", "tables"),
    }


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
    return next(each for each in all_blocks() if each.page == PAGE and each.text == block.text)
