"""The sessions and Python programs of the README and of docs/, page by page against one job.

`./dlx docs --record` runs this with DLX_RENEW_DOCS=1, which writes the output into the pages.
"""

import os
import shutil
import subprocess
import sys

import pytest

from streaming.config import show_config
from tests.fixtures.child import Child
from tests.fixtures.jobs import running_job
from tests.fixtures.services import embedded_kafka, spark
from tools.docs.__main__ import RENEW
from tools.docs.markdown import ROOT, all_blocks, replace
from tools.docs.registry import JOB, PLACE
from tools.docs.sessions import Sessions, is_pure

__all__ = ["embedded_kafka", "running_job", "spark"]

PYTHON_TIMEOUT_S = 300
ORDER = (
    "docs/quickstart.md",
    "docs/operating.md",
    "docs/python-client.md",
    "docs/tracing.md",
    "README.md",
)
"""The order of the pages: the second uses the queues of the first; the last makes its own."""

BLOCKS = [
    block
    for page in ORDER
    for block in all_blocks()
    if block.page == page
    and (block.language == "python" or (block.language == "console" and not is_pure(block.text)))
]

PRINTED = {
    "docs/python-client.md": (
        "b'body' 0 []\njobs rejected\nno such item\n",
        "/ True\n",
        "",
        "task 0\ntask 1\ntask 2\n",
        "shipping order 1\n",
    ),
    "docs/tracing.md": (
        "['ack jobs', 'order', 'process jobs', 'publish jobs', 'receive jobs']\ntraces: 1\n",
    ),
    "README.md": ("rejected\n",),
}
"""The output of a page's programs, in order."""


@pytest.fixture(scope="module")
def folder(running_job):
    """The folder of the job, as on the pages: dlx.toml, tables and examples."""
    home = running_job.root
    (home / "dlx.toml").write_text(show_config(running_job.config))
    shutil.copytree(ROOT / "examples", home.parent / "examples", dirs_exist_ok=True)
    return home


@pytest.fixture(scope="module")
def shell(folder):
    return Sessions(folder, patient=True)


def test_every_page_with_a_job_is_run():
    assert set(ORDER) == {page for page, test in PLACE.items() if test == JOB}


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_does_what_the_page_shows(block, folder, shell, running_job):
    if block.language == "python":
        prepare_queues(running_job)
        printed = run_python(block.text.replace("localhost:9092", running_job.servers), folder)
        programs = [
            each for each in BLOCKS if each.page == block.page and each.language == "python"
        ]
        assert printed == PRINTED[block.page][programs.index(block)]
    elif os.environ.get(RENEW):
        replace(current(block), shell.renewed(block.text))
    else:
        assert shell.differences(block.text) == []


def run_python(program, folder):
    """Run a program like a user, but with longer timeouts; return its output."""
    patient = program.replace(
        "Connection.from_config(", "Connection.from_config(timeout_s=120, file="
    )
    process = Child([sys.executable, "-c", patient], cwd=folder, stderr=subprocess.PIPE)
    try:
        first = ""
        if "import Delivery, consumer, run" in program:  # a service runs until SIGTERM
            first = f"{process.line()}\n"
            process.terminate()
        rest, errors = process.communicate(timeout=PYTHON_TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return first + rest


def prepare_queues(running_job):
    """Delete the queues that other programs have declared; give the service an order."""
    with running_job.connect() as connection:
        channel = connection.channel()
        for queue in ("work", "failed", "jobs", "dead", "steps", "tasks", "shipments"):
            channel.delete_queue(queue)
        channel.declare_queue("shipments")
        connection.publisher().publish("", "shipments", "order 1").result()


def current(block):
    """The block at its current position; renewed blocks above it may have moved it."""
    return next(
        each
        for each in all_blocks()
        if each.page == block.page and each.text == block.text and each.language == block.language
    )
