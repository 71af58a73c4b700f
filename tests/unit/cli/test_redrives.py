"""`dlx dead-letters redrive`, `discard`, `restore`, and `dlx redrives` over the shop's tables."""

import errno
import io
import json
import shlex
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from streaming.broker.redrive_letters import Letter, Target
from streaming.cli.dead_letters.editing import content_text, read_content
from streaming.cli.job.redrives import is_waiting, waiting_for
from streaming.cli.output import lasting_stderr
from streaming.client.admin import QueueState, RedriveState
from streaming.client.errors import NotFoundError
from streaming.protocol.letter_content import LetterContent
from streaming.queries.redrives.kept_plans import kept_edits, kept_forecast
from topology.errors import DlxError


def planned(dlx, root, *arguments):
    status, out, err = dlx("dead-letters", *arguments, "--tables", root)
    assert (status, err) == (0, "")
    return out


def test_a_plan_is_kept_by_its_id_and_says_how_to_approve_it(dlx, shop_root, user_folders):
    plan = json.loads(planned(dlx, shop_root, "redrive", "--json"))
    told = planned(dlx, shop_root, "redrive")

    [group] = plan["groups"]
    assert (group["died_in"], group["now_in"], group["goes_to"]) == ("mail", "dead", "mail")
    assert group["forecast"]["no consumer in time"] == 1
    assert [file.stem for file in user_folders.rglob("plans/*.json")].count(plan["id"]) == 1
    assert "dlx redrives approve r-" in told


def test_a_plan_is_kept_with_its_forecast_and_its_edits_for_its_owner_alone(
    dlx, shop_root, user_folders
):
    plan = json.loads(planned(dlx, shop_root, "redrive", "--set-header", "a=b", "--json"))

    [group] = plan["groups"]
    assert group["forecast"]
    assert kept_forecast(plan["id"]) == group["forecast"]
    assert len(kept_edits(plan["id"])) == len(plan["edits"]) == 1
    files = sorted(user_folders.rglob("plans/*"))
    assert [file.suffix for file in files] == [".edits", ".forecast", ".json"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_plan_can_be_a_file_and_a_changed_one_is_refused(dlx, shop_root, tmp_path):
    file = tmp_path / "plan.json"
    status, _, err = dlx("dead-letters", "redrive", "--out", file, "--tables", shop_root)
    assert (status, err) == (0, f"wrote {file}\n")
    file.write_text(file.read_text().replace('"mail"', '"spam"'))

    status, out, err = dlx("redrives", "approve", file, "--reason", "x", "--yes")

    assert (status, out) == (2, "")
    assert str(file) in err


@pytest.mark.parametrize(
    ("arguments", "letters"),
    [
        (("redrive", "--gone"), 1),
        (("redrive", "--queue", "billing"), 0),
        (("redrive", "--id", "0/0/2"), 1),
        (("redrive", "--id", "dlx.publishes/0/2"), 1),
        (("redrive", "--id", "first"), 0),
        (("redrive", "--id", "first", "--gone"), 1),
        (("redrive", "--reason", "expired", "--to-origin", "--expiration", "restart"), 1),
        (("discard",), 1),
        (("restore",), 0),
    ],
)
def test_letters_are_chosen_by_filters(dlx, shop_root, arguments, letters):
    plan = json.loads(planned(dlx, shop_root, *arguments, "--json"))

    assert plan["letters"] == letters
    assert (plan["plan"] is None) == (letters == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("dead-letters", "redrive", "--to", "a", "--to-origin"),
        ("dead-letters", "redrive", "--to-key", "k"),
        ("dead-letters", "redrive", "--key", "colour"),
        ("dead-letters", "redrive", "--key", "header:"),
        ("dead-letters", "redrive", "--id", "seven"),
        ("dead-letters", "redrive", "--id", "same"),
        ("dead-letters", "redrive", "--queue", "biling"),
        ("redrives", "show", "r-none"),
    ],
)
def test_a_wrong_wish_is_one_line_and_status_2(dlx, shop_root, arguments):
    status, out, err = dlx(*arguments, "--tables", shop_root)

    assert (status, out, err.count("\n")) == (2, "", 1)


def test_an_approval_must_be_confirmed(dlx, shop_root, monkeypatch):
    plan = json.loads(planned(dlx, shop_root, "redrive", "--json"))["plan"]
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    for more in ((), ("--count", "7"), ("--yes", "--reason", " ")):
        status, out, _ = dlx("redrives", "approve", plan, "--reason", "x", *more)
        assert (status, out) == (2, "")


def test_an_unknown_plan_is_refused(dlx):
    status, _, err = dlx("redrives", "approve", "r-none", "--reason", "x", "--yes")

    assert (status, err.count("\n")) == (2, 1)


def test_without_redrives_the_list_says_so(dlx, shop_root):
    assert dlx("redrives", "list", "--tables", shop_root) == (0, "no redrives\n", "")


class Terminal(io.StringIO):
    """A terminal whose input has ended: its user typed Ctrl-D."""

    def isatty(self):
        return True


def test_the_end_of_the_input_approves_nothing(dlx, shop_root, tmp_path, monkeypatch):
    file = tmp_path / "plan.json"
    dlx("dead-letters", "redrive", "--out", file, "--tables", shop_root)
    monkeypatch.setattr(sys, "stdin", Terminal())

    status, out, err = dlx("redrives", "approve", file, "--reason", "x")

    assert (status, err) == (2, "nothing was approved\n")
    assert "1 letter?" in out


def test_a_progress_bar_outlives_its_terminal(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError(errno.EIO, "Input/output error")

        def flush(self):
            raise OSError(errno.EIO, "Input/output error")

        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Closed())

    with Progress(console=Console(file=lasting_stderr(), force_terminal=True)) as bar:
        bar.update(bar.add_task("r", total=2), completed=1)

    assert bar.finished is False


def test_a_plan_shows_its_edits(dlx, shop_root):
    edits = ("--set-header", "retry=true", "--edit-body", "decode(body) || '!'")
    plan = json.loads(planned(dlx, shop_root, "redrive", "--json", *edits))
    told = planned(dlx, shop_root, "redrive", *edits)

    [edit] = plan["edits"]
    assert "+header retry: true" in edit["diff"]
    assert edit["version"][:12] in told


def test_an_editor_writes_the_new_content(dlx, shop_root, tmp_path, monkeypatch):
    script = tmp_path / "editor"
    script.write_text(
        '#!/bin/sh\nprintf -- \'{"headers": {"by": "hand"}}\\n---\\nnew\\n\' > "$1"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("EDITOR", shlex.quote(str(script)))
    monkeypatch.delenv("VISUAL", raising=False)

    plan = json.loads(planned(dlx, shop_root, "redrive", "--json", "--edit"))

    [edit] = plan["edits"]
    assert {'+header by: "hand"', "+body: new"} <= set(edit["diff"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--set-header", "no-value"),
        ("--set-property", "content_tpe=text"),
        ("--set-property", "priority=high"),
        ("--edit", "--set-header", "a=1"),
        ("--to-key", "k"),
        ("--key", "header:"),
        ("--key", "n"),
    ],
)
def test_wrong_options_of_a_plan_are_refused(dlx, shop_root, arguments):
    status, out, err = dlx("dead-letters", "redrive", *arguments, "--tables", shop_root)

    assert (status, out) == (2, "")
    assert arguments[0] in err


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ("no line", "missing"),
        ("{\n---\nbody", "cannot be read"),
        ('{"headers": 5}\n---\nbody', "cannot be read"),
        ("[]\n---\nbody", "cannot be read"),
    ],
)
def test_an_edited_text_that_cannot_be_read_is_refused(edited, said):
    with pytest.raises(DlxError, match=said):
        read_content(edited, LetterContent(b"", {}, None))


@pytest.mark.parametrize("body", [b"", b"text", b"lines\n", b'{"a": 1}\n---\nmore'])
@pytest.mark.parametrize("added", ["", "\n"])
def test_an_editor_that_changes_nothing_changes_nothing(body, added):
    content = LetterContent(body, {"priority": 1}, {"h": {"$bytes": "YQ=="}})
    added = "" if body.endswith(b"\n") else added

    assert read_content(content_text(content) + added, content) == content


def test_a_body_that_is_not_text_cannot_be_edited_by_hand():
    with pytest.raises(DlxError, match="--edit-body"):
        content_text(LetterContent(b"\xff", {}, None))


class _Connection:
    """Answers passive declarations: name -> consumers; another queue does not exist."""

    def __init__(self, consumers):
        self._consumers = consumers

    @contextmanager
    def channel(self):
        yield self

    def declare_queue(self, name, *, passive):
        assert passive
        if name not in self._consumers:
            raise NotFoundError(404, "no such queue")
        return QueueState(name, 0, self._consumers[name])


def a_plan(*queues):
    letters = tuple(
        Letter(0, number, "dead", Target(queue, "", (queue,)))
        for number, queue in enumerate(queues)
    )
    return SimpleNamespace(letters=letters)


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        (1, "the redrive waits until 1 canary letter is settled; no consumer on billing"),
        (3, "the redrive waits until 3 canary letters are settled; no consumer on billing"),
    ],
)
def test_a_redrive_says_what_its_canary_letters_wait_for(canary, words):
    plan = a_plan("billing", "mail", "gone", "never")
    connection: Any = _Connection({"billing": 0, "mail": 2, "never": 0})

    assert waiting_for(connection, plan, canary) == words


@pytest.mark.parametrize(
    ("moved", "skipped", "canary", "waits"),
    [
        *((0, 0, 0, False), (2, 0, 0, False), (2, 0, 3, False), (3, 0, 3, True)),
        *((2, 1, 3, True), (4, 0, 3, False), (0, 3, 3, False)),
    ],
)
def test_it_waits_once_all_canary_letters_have_left(moved, skipped, canary, waits):
    state = RedriveState("r", "running", 9, moved, skipped, 0)

    assert is_waiting(state, canary) is waits
