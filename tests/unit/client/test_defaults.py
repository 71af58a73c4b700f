"""One table of defaults: the client, the wire format and the command line agree with it."""

import inspect

import msgspec
import pytest

from streaming.broker import commands
from streaming.client import Channel, Connection, Delivery, aio, consumer, run
from streaming.protocol import defaults


def default_of(function, name):
    return inspect.signature(function).parameters[name].default


def row(name):
    return next(each for each in defaults.TABLE if each.name == name)


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (Connection, "timeout_s", defaults.TIMEOUT_S),
        (Connection.from_config, "timeout_s", defaults.TIMEOUT_S),
        (aio.Connection, "timeout_s", defaults.TIMEOUT_S),
        (run, "timeout_s", defaults.TIMEOUT_S),
        (Connection.channel, "lease_s", defaults.LEASE_S),
        (aio.Connection.channel, "lease_s", defaults.LEASE_S),
        (Channel.consume, "prefetch", defaults.PREFETCH),
        (aio.Channel.consume, "prefetch", defaults.PREFETCH),
        (consumer, "prefetch", defaults.PREFETCH),
        (Channel.nack, "requeue", defaults.REQUEUE),
        (Channel.reject, "requeue", defaults.REQUEUE),
        (Delivery.nack, "requeue", defaults.REQUEUE),
        (aio.Delivery.reject, "requeue", defaults.REQUEUE),
        (Connection.publisher, "max_unconfirmed", defaults.MAX_UNCONFIRMED),
        (run, "stop_timeout_s", defaults.STOP_TIMEOUT_S),
    ],
)
def test_the_client_has_the_defaults_of_the_table(function, name, value):
    assert default_of(function, name) == value


@pytest.mark.parametrize(
    ("command", "member", "name", "words"),
    [
        (commands.Consume, "prefetch", "prefetch", {0: "no limit"}),
        (commands.Consume, "auto_ack", "automatic ack", {False: "no"}),
        (commands.OpenChannel, "lease_ms", "lease of a channel", {None: "none"}),
        (commands.Nack, "requeue", "requeue of nack and reject", {False: "no"}),
        (commands.Reject, "requeue", "requeue of nack and reject", {False: "no"}),
    ],
)
def test_the_table_says_what_the_wire_format_does(command, member, name, words):
    field = next(each for each in msgspec.structs.fields(command) if each.name == member)

    assert words[field.default] == row(name).wire


def test_the_command_line_has_the_defaults_of_the_table():
    from streaming.cli import options
    from streaming.cli.job import deliveries

    assert (
        default_of(deliveries.get, "timeout_s") == options.DEFAULT_TIMEOUT_S == defaults.TIMEOUT_S
    )
    assert default_of(deliveries.get, "lease") == defaults.DETACHED_LEASE_S
    prefetch = inspect.signature(deliveries.consume).parameters["prefetch"].annotation
    assert f"Default: {defaults.PREFETCH};" in prefetch.__metadata__[0].help
    assert default_of(deliveries.reject, "requeue") is False
    assert row("requeue of nack and reject").command_line == "no"
