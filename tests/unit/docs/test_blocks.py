"""Every code block of the README and of docs/ is checked; here, those that need no job."""

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from base64 import b64encode

import pytest

from streaming.config import load_config
from streaming.console.logins import Credentials
from streaming.metrics.alerting.notices import Notice
from streaming.metrics.alerting.notices import document as told
from streaming.metrics.alerts import shipped_alerts
from streaming.protocol.amqp_properties import PROPERTIES
from streaming.protocol.command_json import KINDS, parse_command
from streaming.protocol.record_headers import FLAG_BITS, INBOUND, KIND, LANE, SEQ
from streaming.scenario.compare import compare_outcome
from streaming.scenario.document import parse_scenario
from streaming.scenario.play import play
from tools.docs.markdown import ROOT, all_blocks, pages, prose
from tools.docs.registry import COOKBOOK, NOT_RUN, PLACE, PURE, RUN_BY
from tools.docs.sessions import CHECKOUT, is_pure, steps
from topology.definitions.load import load_definitions

BLOCKS = all_blocks()
LANGUAGES = {
    *("console", "go", "java", "json", "mermaid", "php", "python", "ruby", "sh", "sql", "text"),
    "toml",
}
JSON_OF_RECORDS = ("dlx-exchange", "type")
"""The first member of JSON that is neither a scenario nor a command: headers, notices."""


def of(language):
    """The blocks of a language."""
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language == language]


def lines_of_sh():
    """Each command of the `sh` blocks, without its comment."""
    return [
        (str(block), line.partition("  #")[0].strip())
        for block in BLOCKS
        if block.language == "sh"
        for line in block.text.splitlines()
        if line.strip()
    ]


def test_every_block_names_a_language_that_is_checked():
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", of("console"))
def test_every_session_is_run_by_its_page(block):
    commands = [step.command for step in steps(block.text)]

    if is_pure(block.text):
        assert {command.split()[1] for command in commands} <= set(PURE)
        assert CHECKOUT.differences(block.text) == []
    else:
        assert block.page in PLACE, "name a test for this page in tools/docs/registry.py"
        assert not any(command.startswith("./dlx") for command in commands)


@pytest.mark.parametrize("block", of("mermaid"))
def test_a_diagram_equals_the_output_of_its_command(block):
    assert block.note.startswith("./dlx diagram ")
    assert block.text == CHECKOUT.run(block.note)


@pytest.mark.parametrize(("block", "line"), lines_of_sh())
def test_a_shell_line_runs(block, line, tmp_path):
    if line.startswith((*RUN_BY, *NOT_RUN)):
        return
    words = line.split()
    assert words[0] == "./dlx", f"{block}: {line!r} is not in tools/docs/registry.py"
    assert words[1] in PURE, f"{block}: {line!r} is not in tools/docs/registry.py"
    for name in ("examples", "docker"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "dlx.toml").touch()
    program = f'"{sys.executable}" -P -m streaming.cli'

    ended = subprocess.run(
        ["bash", "-c", line.replace("./dlx", program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_tests_that_the_registry_names_exist_and_its_reasons_are_needed():
    shown = [line for _, line in lines_of_sh()]
    named = {*RUN_BY.values(), *PLACE.values()}

    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
    assert [name for name in PLACE if not (ROOT / name).is_file()] == []
    assert [
        begin for begin in (*RUN_BY, *NOT_RUN) if not any(line.startswith(begin) for line in shown)
    ] == []


@pytest.mark.parametrize("block", of("json"))
def test_json_is_a_scenario_or_definitions_or_a_command_or_the_value_of_a_record(block):
    document = json.loads(block.text)

    if "steps" in document and "end_ms" in document:
        scenario = parse_scenario(block.text, "page")
        assert compare_outcome(scenario, play(scenario, "4.0"), "4.0").differences == ()
    elif "op" in document:
        assert document["op"] in KINDS
        parse_command(document)
    elif "queues" in document:
        load_definitions(document)
    elif "alert" in document:
        name, labels, value = (document[each] for each in ("alert", "labels", "value"))
        notice = Notice(document["id"].removesuffix("-firing"), name, labels, value, 1_764_108_000)
        url = "https://dlx.example.com"
        assert document == told(
            notice, shipped_alerts()[name], end=False, job=document["job"], console_url=url
        )
    else:
        assert next(iter(document)) in JSON_OF_RECORDS


@pytest.mark.parametrize("block", of("toml"))
def test_toml_is_part_of_a_configuration(block, tmp_path):
    (tmp_path / "definitions.json").write_text('{"queues": []}')
    text = block.text
    for source in ("publishes", "commands"):
        is_there = f'source = "{source}"' in text or f'topic = "dlx.{source}"' in text
        if "[[inputs]]" in text and not is_there:
            text += f'[[inputs]]\ntopic = "dlx.{source}"\nsource = "{source}"\n'
    file = tmp_path / "dlx.toml"
    file.write_text(text)

    assert tomllib.loads(block.text)
    load_config(file)


def test_python_and_sql_have_a_page_whose_test_runs_them():
    places = {
        (block.page, block.language): PLACE.get(block.page)
        for block in BLOCKS
        if block.language in {"python", "sql"}
    }

    assert None not in places.values()
    assert all(
        PLACE[page] == COOKBOOK or page == "README.md"
        for page, language in places
        if language == "sql"
    )


def test_text_blocks_are_generated_or_drawings():
    generated = {"docs/cli.md", "docs/python-api.md", "docs/queries-api.md"}
    drawn = [block for block in BLOCKS if block.language == "text" and block.page not in generated]

    assert [block.page for block in drawn] == ["docs/console.md", "docs/design.md"]


def test_the_users_of_the_console_page_can_log_in(tmp_path):
    [block] = [each for each in BLOCKS if (each.page, each.language) == ("docs/console.md", "text")]
    file = tmp_path / "console.toml"
    file.write_text(block.text)
    authorization = b64encode(b"anna:an example").decode()

    user = asyncio.run(Credentials(file).log_in(f"Basic {authorization}", "127.0.0.1"))

    assert user is not None
    assert (user.name, user.role, user.administrator) == ("anna", "operator", True)


def test_the_wire_page_names_every_op_property_header_and_cause():
    named = set(re.findall(r"`([^`]+)`", prose(ROOT / "docs/wire-format.md")))
    outbound = {KIND, SEQ, LANE, *("delivery", "confirm", "return", "publish_error", "answer")}

    assert KINDS.keys() - {"tick"} <= named
    assert {*INBOUND, *PROPERTIES, *FLAG_BITS, *outbound} <= named
    assert causes_of_quarantine() <= named


def causes_of_quarantine():
    """The causes in the code."""
    found = {"lost_in_kafka", "lost_topic"}
    for folder in ("protocol", "pipeline"):
        for file in (ROOT / "streaming" / folder).rglob("*.py"):
            found |= set(
                re.findall(r'(?:MalformedRecordError|PropertyFault)\(\s*"(\w+)"', file.read_text())
            )
    return found


def test_every_file_that_a_page_names_exists():
    pattern = re.compile(r"`((?:streaming|topology|tests|tools|docs|docker|examples)/[\w./-]*)`")

    assert [
        f"{page.name}: {name}"
        for page in pages()
        for name in pattern.findall(page.read_text("utf-8"))
        if not (ROOT / name).exists()
    ] == []
