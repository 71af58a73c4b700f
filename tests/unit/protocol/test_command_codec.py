"""Commands arrive in the fold as the intake has read them."""

import json

import msgspec
import pytest

from streaming.broker import commands
from streaming.protocol.command_codec import decode_command, encode_command
from streaming.protocol.command_json import KINDS, read_flat
from streaming.protocol.json_input import MAX_DEPTH
from streaming.protocol.record_headers import command_record
from tests.every_command import COMMANDS
from topology.declarations import Binding
from topology.values import AmqpValue


def test_every_command_is_covered_by_these_tests():
    assert {command.__struct_config__.tag for command in COMMANDS} == set(KINDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__struct_config__.tag)
def test_a_command_is_decoded_as_it_was_encoded(command):
    assert decode_command(encode_command(command), 1) == command


def test_in_a_vhost_of_several_lanes_a_get_knows_whose_turn_it_is():
    get = commands.GetOnLanes(queue="q", turn=2)
    ack = commands.Ack(refs=("a",))

    assert decode_command(encode_command(get), 3) == get
    assert decode_command(encode_command(ack), 3) == ack


def test_a_large_document_of_definitions_is_small_on_its_way():
    queues = [{"name": f"q{number}", "durable": True} for number in range(10_000)]
    command = commands.ImportDefinitions(definitions={"queues": queues})

    data = encode_command(command)

    assert len(data) < len(msgspec.json.encode(command)) / 4
    assert decode_command(data, 1) == command


def test_the_deepest_definitions_that_are_read_reach_the_fold():
    definitions: dict[str, object] = {}
    for _ in range(MAX_DEPTH - 2):
        definitions = {"a": definitions}
    value = msgspec.json.encode({"op": "import_definitions", "definitions": definitions})
    command = command_record(b"", None, value).command

    assert decode_command(encode_command(command), 1) == command


def test_a_number_beyond_64_bits_reaches_the_fold_which_refuses_it():
    policy = {"name": "p", "pattern": "", "definition": {}, "priority": 2**64}
    value = json.dumps({"op": "set_policy", "policy": policy}).encode()
    command = command_record(b"", None, value).command

    assert decode_command(encode_command(command), 1) == command
    assert decode_command(encode_command(command), 2) == command


@pytest.mark.parametrize("op", ["get", "ack", "settle", "renew", "depth", "purge"])
def test_a_command_without_nested_members_is_read_in_one_step(op):
    [command, *_] = [one for one in COMMANDS if one.__struct_config__.tag == op]

    assert read_flat(msgspec.json.encode(command)) == command


def test_numbers_that_are_short_as_text_take_no_more_room_in_a_record():
    numbers: list[AmqpValue] = [*(number / 10 for number in range(-50, 50)), *[0.1] * 50_000]
    binding = Binding("x", "q", "queue", "k", {"x": numbers})
    command = commands.Bind(binding=binding)

    data = encode_command(command)

    assert len(data) < len(json.dumps(numbers))
    assert decode_command(data, 1) == command
