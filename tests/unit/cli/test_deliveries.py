"""`dlx consume`: the environment of its command, and truncated messages."""

import pytest

from streaming.cli.job.deliveries import handle
from tests.fixtures.deliveries import a_delivery


@pytest.mark.parametrize(
    ("headers", "test"),
    [
        ({"k": "v"}, """test "$DLX_HEADERS" = '{"k":"v"}'"""),
        ({"k": "v" * 200_000}, "test -z ${DLX_HEADERS+given}"),
    ],
)
def test_headers_are_in_the_environment_unless_too_long(headers, test):
    command = ["sh", "-c", f"test $(cat) = body && {test}"]

    assert not handle(a_delivery(headers=headers), command)


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 3", "sh: exit status 3"), ("kill -9 $$", "sh: ended by signal 9")],
)
def test_a_command_that_fails_says_how(script, reason):
    assert handle(a_delivery(), ["/bin/sh", "-c", script]) == reason


def test_a_message_without_its_body_is_not_passed_to_the_command(capfd):
    cut = a_delivery(body=b"", truncated={"body": 5_000_000}, origin=(1, 0, 42))

    assert handle(cut, ["echo", "called"]).startswith("delivered without its body")

    out, err = capfd.readouterr()
    assert out == ""
    assert "dlx dead-letters show 1/0/42" in err
