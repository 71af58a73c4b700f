"""What fronts copy into the logs of sequenced vhosts, and what everybody else refuses."""

import pytest

from streaming.broker import commands
from streaming.broker.message import Publication
from streaming.broker.redrive_letters import Edit, Letter, StoredLetter, Target
from streaming.broker.redrives.version_keys import VERSION_KEY, name_of_content
from streaming.protocol.command_codec import decode_command, encode_command
from streaming.protocol.copied_records import (
    Source,
    channel_of,
    copied_command,
    is_copied_version,
    not_copied,
    read_source,
)
from tests.builders import a_queue
from tests.every_command import COMMANDS

TARGET = Target("work", "", ("work",))
EXCHANGE = Target(None, "orders", ("k",))
STORED = StoredLetter((1, 0, 2), 3, 0, None, ())


def a_redrive(letter: Letter) -> commands.Redrive:
    return commands.Redrive(id="r", reason="why", seal="s", total=1, letters=(letter,))


def test_administration_and_redrives_are_copied_and_nothing_else():
    copied = {one.__struct_config__.tag for one in COMMANDS if not_copied("v", one) is None}

    assert copied >= {"open_channel", "bind", "set_policy", "purge", "depth", "control_redrive"}
    assert not copied & {"get", "consume", "ack", "nack", "settle", "recover", "check", "tick"}
    for letter in (
        Letter(0, 7, "dead"),
        Letter(0, 7, "dead", EXCHANGE),
        Letter(0, 7, "dead", TARGET, 0, STORED, Edit("a", "b")),
    ):
        assert not_copied("v", a_redrive(letter)) is None


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (commands.Get(queue="q"), "connect to it with a client of AMQP"),
        (commands.OpenChannel(channel="c", connection="n"), "a channel of a connection"),
        (commands.DeclareQueue(queue=a_queue("q", exclusive=True)), "an exclusive queue"),
        (
            a_redrive(Letter(0, 7, "dead", EXCHANGE, 0, STORED)),
            "in no queue any more, can only be sent to a queue",
        ),
        (
            a_redrive(Letter(0, 7, "dead", EXCHANGE, 0, None, Edit("a", "b"))),
            "letters that are edited",
        ),
        (commands.Renew(channel="c" * 250), "longer than 249 bytes"),
    ],
)
def test_a_refusal_says_why(command, words):
    assert words in (not_copied("v", command) or "")


def test_a_copied_command_is_on_a_channel_of_its_own():
    copied = copied_command(commands.Renew(channel="c" * 249, reply_id="7"))

    assert decode_command(encode_command(copied), 1) == copied
    assert channel_of(copied) == "kafka:" + "c" * 249
    assert copied.reply_id == "7"


def test_a_source_that_cannot_be_read_is_none():
    assert read_source(b"\xc1") is None
    assert read_source(b"\x93\xa1t\x01\x02") == Source("t", 1, 2)


@pytest.mark.parametrize(
    ("exchange", "key", "is_copied"),
    [
        ("", VERSION_KEY + "a" * 64, True),
        ("x", VERSION_KEY + "a" * 64, False),
        ("", VERSION_KEY + "a", False),
        ("", VERSION_KEY + name_of_content(7), False),
        ("", "work", False),
    ],
)
def test_versions_of_letters_are_copied_and_no_contents_that_only_a_front_writes(
    exchange, key, is_copied
):
    assert is_copied_version(Publication(exchange, key)) is is_copied
