"""The receiver on the page of alerts: it takes what the job signs, and nothing else."""

import subprocess
import sys
import time

import pytest

from streaming.embedded.kafka.ports import free_port
from streaming.metrics.alerting.webhook import Webhook, WebhookError
from tests.fixtures.waiting import wait_until
from tools.docs.markdown import DOCS, blocks

SECRET = b"0123456789abcdef"
TOLD = {"state": "firing", "alert": "DlxNoConsumer", "summary": "Queue größe has no consumer"}


def block(language):
    """The only block of the page in a language that is about the receiver."""
    [found] = [
        one.text
        for one in blocks(DOCS / "alerts.md")
        if one.language == language and "receiver" in one.text.lower()
    ]
    return found


@pytest.fixture
def receiver(tmp_path):
    """The receiver of the page: its port, and the lines that it has printed."""
    (tmp_path / "receiver.py").write_text(block("python"))
    (tmp_path / "webhook.secret").write_bytes(SECRET + b"\n")
    port, printed = free_port(), tmp_path / "printed"
    command = [sys.executable, "receiver.py", "webhook.secret", str(port)]
    with printed.open("w") as out, subprocess.Popen(command, cwd=tmp_path, stdout=out) as program:
        try:
            wait_until(lambda: tells(port, b"another secret!!") == "refused")
            yield port, lambda: printed.read_text().splitlines()
        finally:
            program.terminate()


def tells(port, secret, now=time.time):
    """What becomes of a message of the job."""
    try:
        Webhook(f"http://127.0.0.1:{port}/", secret, now).tell(TOLD)
    except WebhookError as error:
        return "refused" if "403" in str(error) else "unheard"
    return "taken"


def test_it_takes_what_the_job_signs(receiver):
    port, printed = receiver

    assert tells(port, SECRET) == "taken"
    wait_until(printed)  # it answers first
    assert printed() == ["firing DlxNoConsumer Queue größe has no consumer"]


@pytest.mark.parametrize("secret", [b"another secret!!", None])
def test_it_refuses_what_is_signed_otherwise_or_not_at_all(receiver, secret):
    port, printed = receiver

    assert tells(port, secret) == "refused"
    assert printed() == []


def test_it_refuses_what_is_repeated_later(receiver):
    port, printed = receiver

    assert tells(port, SECRET, lambda: time.time() - 600) == "refused"
    assert printed() == []


def test_the_message_that_the_page_signs_by_hand_is_taken(tmp_path):
    (tmp_path / "receiver.py").write_text(block("python"))
    script = block("sh").replace("8080", str(free_port())).replace("python3", sys.executable)

    ended = subprocess.run(
        ["bash", "-c", f"trap 'kill %1' EXIT\n{script}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == "firing Test it works\n"
