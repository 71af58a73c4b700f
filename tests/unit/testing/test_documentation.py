"""The examples of docs/amqp.md and examples/amqp-test, run as a user runs them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from streaming.amqp.web.app import web_app
from tests.amqp_client import memory_broker
from tools.docs.markdown import blocks

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "amqp.md"
OTHERS = [block for block in blocks(PAGE) if block.language in {"go", "java"}]


def run_pytest(folder, *arguments):
    plugin = ("-p", "streaming.testing.plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        (sys.executable, "-m", "pytest", "-q", *plugin, *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_test_on_the_page_passes(tmp_path):
    (block,) = [block for block in blocks(PAGE) if block.language == "python"]
    (tmp_path / "test_page.py").write_text(block.text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    ended = run_pytest(tmp_path)

    assert "1 passed" in ended.stdout, ended.stdout


@pytest.mark.parametrize("setting", ["dlx_port=amqp", "dlx_patience=nan", "dlx_patience=-1"])
def test_a_setting_that_is_not_a_number_is_named(tmp_path, setting):
    (tmp_path / "test_broker.py").write_text("def test_broker(dlx_broker): pass")
    name, value = setting.split("=")

    ended = run_pytest(tmp_path, "-o", setting)

    assert f"UsageError: {name} is a number from 0, not {value}" in ended.stdout


def test_the_example_project_passes_in_memory():
    ended = run_pytest(ROOT / "examples" / "amqp-test")

    assert "3 passed" in ended.stdout, ended.stdout


def test_there_is_an_example_in_other_languages():
    assert {block.language for block in OTHERS} == {"go", "java"}


@pytest.mark.parametrize("block", OTHERS, ids=str)
def test_the_requests_in_other_languages_are_answered(block):
    (path,) = re.findall(r"localhost:15673(/[\w/]+)", block.text)
    (duration,) = re.findall(r'advance\\?": \\?"([\w ]+)', block.text)
    web = TestClient(web_app(memory_broker(), ["testserver"]))

    answer = web.post(
        path,
        content=json.dumps({"advance": duration}),
        headers={"content-type": "application/json"},
    )

    assert "application/json" in block.text
    assert answer.status_code == 200
