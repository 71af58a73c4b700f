"""`dlx publish`: what it says of its messages, and of a terminal that it reads."""

import io
import sys
from concurrent.futures import Future

import pytest

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_NO_ANSWER, EXIT_OK, EXIT_UNROUTED
from streaming.cli.job.publish import read_bodies
from streaming.cli.job.publish_outcome import PublishOutcome
from streaming.client import NackedError, NoAnswerError, NotFoundError, Returned, UnroutableError

RETURNED = Returned(
    body=b"", exchange="", routing_key="k", properties={}, headers={}, reply_code=312, reply_text=""
)
UNROUTED = UnroutableError(RETURNED)
FULL = NackedError("full")
SILENT = NoAnswerError("no job")


def outcome_of(*errors, mandatory=False):
    outcome = PublishOutcome(mandatory=mandatory)
    for error in errors:
        confirm: Future[None] = Future()
        if error is None:
            confirm.set_result(None)
        else:
            confirm.set_exception(error)
        outcome.add(confirm)
    return outcome


@pytest.mark.parametrize(
    ("errors", "mandatory", "words", "code"),
    [
        ([None], False, "1 confirmed", EXIT_OK),
        ([UNROUTED], False, "1 confirmed, not routed", EXIT_UNROUTED),
        ([None, UNROUTED], False, "2 confirmed, 1 of them not routed", EXIT_UNROUTED),
        ([UNROUTED], True, "0 confirmed", EXIT_FINDINGS),
        ([None, FULL, UNROUTED], False, "2 confirmed, 1 of them not routed", EXIT_FINDINGS),
        ([None, SILENT], False, "1 confirmed", EXIT_NO_ANSWER),
        ([FULL, SILENT], False, "0 confirmed", EXIT_FINDINGS),
    ],
)
def test_an_outcome_says_how_many_were_confirmed_and_routed(errors, mandatory, words, code):
    outcome = outcome_of(*errors, mandatory=mandatory)

    assert (str(outcome), outcome.exit_code) == (words, code)


def test_each_error_is_told_once_with_the_number_of_its_messages():
    assert list(outcome_of(FULL, SILENT, FULL).problems()) == ["2 messages: full", "no job"]


@pytest.mark.parametrize("error", [NotFoundError(404, "no exchange"), SILENT])
def test_an_error_of_every_message_is_raised(error):
    with pytest.raises(type(error)):
        outcome_of(error, error).raise_common()


@pytest.mark.parametrize("errors", [[None, SILENT], [SILENT, FULL], [FULL], [None]])
def test_an_error_of_some_messages_is_not_raised(errors):
    outcome_of(*errors).raise_common()


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(("lines", "bodies"), [(False, [b"1\n2"]), (True, [b"1", b"2"])])
def test_only_a_terminal_is_told_that_stdin_is_read(
    monkeypatch, capsys, is_terminal, lines, bodies
):
    stdin = io.TextIOWrapper(io.BytesIO(b"1\n2"))
    monkeypatch.setattr(stdin, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdin", stdin)

    assert list(read_bodies(None, lines=lines)) == bodies
    assert ("Ctrl-D" in capsys.readouterr().err) == is_terminal


def test_a_body_of_the_command_line_is_published_as_it_is(capsys):
    assert list(read_bodies("hé", lines=False)) == ["hé".encode()]
    assert capsys.readouterr().err == ""
