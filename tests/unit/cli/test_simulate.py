"""`dlx simulate`: stories, JSON and comparisons."""

import json
from pathlib import Path

import pytest

from streaming.scenario.document import parse_scenario
from streaming.scenario.play import play

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MESSAGE: dict[str, object] = {
    "body": "a",
    "exchange": "",
    "routing_key": "q",
    "properties": {},
    "headers": None,
    "redelivered": False,
}
OUTCOME = {
    "steps": [{"step": 0, "op": "publish", "confirm": "ack"}],
    "depths": {"q": 1},
    "unacked": {},
    "queues": {"q": [MESSAGE]},
}
SCENARIO = {
    "id": "one",
    "definitions": {"queues": [{"name": "q"}]},
    "steps": [{"at_ms": 0, "op": "publish", "routing_key": "q", "body": "a"}],
    "end_ms": 10,
}
STORY = """\
one
as RabbitMQ 4.0.5 behaves
    queue 'q': classic

      0 ms  publish 'a' to the default exchange with key 'q'
            'a' -> queue 'q', by its name

     10 ms  the end
    queue 'q': 1 message
        'a'

the path of each message
    'a': 'q' (still ready)
"""


def recorded(outcome, version="4.0.5", **members):
    """The scenario with a recording."""
    return {**SCENARIO, "outcomes": {version: outcome}, **members}


# -- the story


def test_the_story_is_told_on_stdout(dlx, write):
    assert dlx("simulate", write(SCENARIO, "s.json")) == (0, STORY, "")


def test_several_stories_have_a_line_between_them(dlx, write):
    name = write([SCENARIO, {**SCENARIO, "id": "two"}], "s.json")

    status, out, err = dlx("simulate", name)

    assert (status, out, err) == (0, f"{STORY}\n{STORY.replace('one', 'two')}", "")


def test_the_story_follows_the_version(dlx, write):
    _, out, _ = dlx("simulate", "--compat", "3.10", write(SCENARIO, "s.json"))

    assert out == STORY.replace("4.0.5", "3.10.8")


def test_names_and_bodies_cannot_command_the_terminal(dlx, write):
    scenario = {**SCENARIO, "id": "\x1b[2J", "title": "\x9b1m", "expect": {"\x07": []}}
    name = write(scenario, "s.json")

    _, story, _ = dlx("simulate", name)
    _, difference, _ = dlx("simulate", "--check", name)

    assert story.splitlines()[0] == r"\x1b[2J: \x9b1m"
    assert difference.splitlines()[:2] == [r"s.json: '\x1b[2J' failed", r"  queues.\x07"]


# -- outcomes


def test_json_prints_one_outcome_a_line(dlx, write):
    name = write([SCENARIO, recorded({}, id="two")], "s.json")

    status, out, err = dlx("simulate", "--json", name)

    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": "one", "outcome": OUTCOME},
        {"id": "two", "outcome": OUTCOME},
    ]
    assert (status, err) == (0, "")


def test_json_is_ascii_so_that_every_terminal_and_pipe_can_have_it(dlx, write):
    scenario = {**SCENARIO, "id": "é😀"}

    _, out, _ = dlx("simulate", "--json", write(scenario, "s.json"))

    assert out.isascii()
    assert json.loads(out)["id"] == "é😀"


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
def test_json_prints_what_the_core_plays(dlx, compat):
    path = EXAMPLES / "retry.json"

    _, out, _ = dlx("simulate", "--json", "--compat", compat, path)

    outcome = play(parse_scenario(path.read_bytes(), "retry"), "4.0" if compat == "4.0" else "3.10")
    assert json.loads(out) == {"id": "retry", "outcome": outcome}


def test_refused_definitions_are_an_outcome(dlx, write):
    queue = {"name": "q", "arguments": {"x-message-ttl": -1}}
    name = write({**SCENARIO, "definitions": {"queues": [queue]}}, "s.json")

    status, out, err = dlx("simulate", "--json", name)

    text = (
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '<vhost>': "
        "{value_negative,-1}"
    )
    assert json.loads(out) == {
        "id": "one",
        "outcome": {"setup_error": {"code": 406, "text": text}},
    }
    assert (status, err) == (0, "")


# -- the test


def test_check_counts_what_is_equal(dlx, write):
    name = write([recorded(OUTCOME), recorded(OUTCOME, id="two", expect={"q": ["a"]})], "s.json")

    assert dlx("simulate", "--check", name) == (0, "2 of 2 scenarios passed\n", "")


def test_check_shows_each_difference_and_exits_with_1(dlx, write):
    wanted = {**OUTCOME, "depths": {"q": 2}, "queues": {"q": [{**MESSAGE, "body": "b"}]}}
    name = write(
        [
            recorded(wanted, expect={"q": [{"body": "a", "reasons": ["expired"]}]}),
            recorded(OUTCOME, id="two"),
        ],
        "s.json",
    )

    assert dlx("simulate", "--check", name) == (
        1,
        """\
s.json: 'one' failed
  depths.q
    recorded: 2
        here: 1
  queues.q
    recorded: 'b'
        here: 'a'
  queues.q
    expected: 'a' dead: expired
        here: 'a' never dead
1 of 2 scenarios passed
""",
        "",
    )


def test_check_prints_some_of_very_many_differences(dlx, write):
    depths = {f"q{index}": 1 for index in range(30)}

    _, out, _ = dlx("simulate", "--check", write(recorded({**OUTCOME, "depths": depths}), "s.json"))

    assert out.splitlines()[-2:] == ["  ... and 11 more differences", "0 of 1 scenarios passed"]


def test_check_names_what_it_could_not_check(dlx, write):
    name = write([SCENARIO, recorded(OUTCOME, "3.10.8", id="two")], "s.json")

    status, out, err = dlx("simulate", "--check", name)

    assert (status, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["0", "of", "0"],
        ["2", "not", "checked:"],
    ]
    assert dlx("simulate", "--check", "--compat", "3.10", name) == (
        0,
        "1 of 1 scenarios passed\n1 not checked: they have no expected outcome\n",
        "",
    )


def test_with_json_differences_are_on_stderr(dlx, write):
    name = write([recorded({**OUTCOME, "depths": {}}), SCENARIO | {"id": "two"}], "s.json")

    status, out, err = dlx("simulate", "--check", "--json", name)

    assert status == 1
    assert [json.loads(line) for line in out.splitlines()] == [
        {"id": "one", "outcome": OUTCOME},
        {"id": "two", "outcome": OUTCOME},
    ]
    assert err.startswith(
        "s.json: 'one' failed\n  depths.q\n    recorded: nothing\n        here: 1\n"
    )


@pytest.mark.parametrize("compat", ["4.0", "3.10"])
def test_the_examples_are_as_they_expect(dlx, compat):
    assert dlx("simulate", "--check", "--compat", compat, EXAMPLES) == (
        0,
        "5 of 5 scenarios passed\n",
        "",
    )


OWN = {
    "vhosts": [{"name": "shop"}, {"name": "bank"}],
    "exchanges": [{"name": "orders", "vhost": "shop", "type": "topic"}],
    "queues": [
        {"name": "work", "vhost": "shop"},
        {"name": "log", "vhost": "shop", "type": "stream"},
    ],
    "bindings": [
        {"source": "orders", "vhost": "shop", "destination": "work", "routing_key": "order.#"}
    ],
}
STEPS = {
    "id": "mine",
    "steps": [
        {"at_ms": 0, "op": "publish", "exchange": "orders", "routing_key": "order.1", "body": "a"},
        {"at_ms": 1, "op": "get", "queue": "nowhere"},
    ],
    "end_ms": 10,
    "expect": {"work": [{"body": "a"}]},
}


def test_steps_are_played_against_a_definitions_file_in_a_vhost_of_it(dlx, write):
    own, steps = write(OWN, "own.json"), write(STEPS, "steps.json")

    status, out, err = dlx("simulate", steps, "--definitions", own, "--vhost", "shop")
    checked = dlx("simulate", "--check", steps, "--definitions", own, "--vhost", "shop")

    assert status == 0
    assert "'a' -> queue 'work', by topic binding 'order.#'" in out
    assert "no queue 'nowhere' in vhost 'shop'" in out
    assert err.startswith("own.json: skipped: queues[1]: ")
    assert checked[:2] == (0, "1 of 1 scenarios passed\n")


def test_the_definitions_and_recordings_of_a_scenario_give_way_to_those_of_the_file(dlx, write):
    queue = {"queues": [{"name": "work"}], "queus": []}
    scenario = STEPS | {"definitions": queue, "outcomes": {"4.0.5": {}}}
    own, steps = write(OWN, "own.json"), write(scenario, "steps.json")

    status, out, err = dlx("simulate", "--check", steps, "--definitions", own, "--vhost", "shop")

    assert (status, out) == (0, "1 of 1 scenarios passed\n")
    assert "steps.json: the definitions of 'mine' are replaced by those of own.json\n" in err
    assert "queus" not in err


def test_a_vhost_needs_a_definitions_file_and_one_of_several_is_chosen(dlx, write):
    own, steps = write(OWN, "own.json"), write(STEPS, "steps.json")

    assert dlx("simulate", steps, "--vhost", "shop")[0] == 2
    assert dlx("simulate", steps, "--definitions", own) == (
        2,
        "",
        "--vhost: own.json has several vhosts, choose one: 'shop', 'bank'\n",
    )
