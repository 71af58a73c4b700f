"""`dlx simulate` with invalid files, which never affect the others."""

import json

import pytest

GOOD = {"id": "good", "steps": [], "end_ms": 0, "expect": {}}
OUTCOME: dict[str, object] = {"steps": [], "depths": {}, "unacked": {}, "queues": {}}


@pytest.fixture
def good(write):
    """A file that is as it should be."""
    return write(GOOD, "good.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "document: is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("{", "document: is not JSON: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        (b"\xff\xfe{}", "document: is not UTF-8: byte 0xff at position 0"),
        ("[" * 100_000, "document: is nested more than 200 levels deep"),
        ("[]", "document: has no scenarios"),
        ("3", "document: expected an object, got a number"),
        ('{"steps": [], "end_ms": NaN}', "end_ms: is not a finite number"),
        ('{"steps": [], "end_ms": 99999999999999999999}', "end_ms: is a number beyond 64 bits"),
        ('{"steps": [], "end_ms": "5"}', "end_ms: expected a whole number, got a string"),
        (
            '{"steps": [{"at_ms": 0, "op": "pubish"}], "end_ms": 5}',
            "steps[0].op: unknown op 'pubish' (did you mean 'publish'?)",
        ),
        (
            '{"steps": [{"at_ms": 0, "op": "ack", "refs": [1]}], "end_ms": 5}',
            "steps[0].refs: expected an array of strings",
        ),
        (
            '{"steps": [{"at_ms": 9, "op": "sleep"}, {"at_ms": 8, "op": "sleep"}], "end_ms": 9}',
            "steps[1].at_ms: is before the previous step, at 9",
        ),
        (
            '{"steps": [{"at_ms": 9, "op": "sleep"}], "end_ms": 5}',
            "end_ms: is before the last step, at 9",
        ),
        (
            '{"steps": [{"at_ms": 0, "op": "publish", "body": "\\ud800"}], "end_ms": 5}',
            "steps[0].body: has half of a surrogate pair, which is not valid text",
        ),
        (
            '{"steps": [], "end_ms": 0, "steps": []}',
            "document: an object names its member 'steps' twice",
        ),
        (
            '[{"steps": [], "end_ms": 0, "expect": []}]',
            "[0].expect: expected an object, got an array",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [(), ("--check",), ("--json",), ("--check", "--json")], ids=str)
def test_a_malformed_file_is_named_and_the_others_are_played(
    dlx, good, tmp_path, text, problem, options
):
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "bad.json").write_bytes(data)

    status, out, err = dlx("simulate", *options, "bad.json", good)

    assert status == 2
    assert err.splitlines()[0] == f"bad.json: {problem}"
    if "--json" in options:
        assert json.loads(out) == {"id": "good", "outcome": OUTCOME}
    else:
        assert out.startswith("1 of 1 scenarios passed\n" if options else "good\n")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nosuch.json", "no such file or directory"),
        ("empty", "has no *.json files"),
        ("good.json/inner", "not a directory"),
    ],
)
def test_what_cannot_be_found_is_named_and_the_others_are_played(
    dlx, good, tmp_path, name, problem
):
    (tmp_path / "empty").mkdir()

    status, out, err = dlx("simulate", "--check", name, good)

    assert (status, out, err) == (2, "1 of 1 scenarios passed\n", f"{name}: document: {problem}\n")


def test_a_malformed_file_outweighs_a_difference(dlx, write):
    differing = write({**GOOD, "expect": {"q": []}}, "differing.json")

    status, _, _ = dlx("simulate", "--check", differing, "nosuch.json")

    assert status == 2


def test_all_problems_of_a_file_are_told(dlx, write):
    name = write({"steps": [{"op": "fly"}, 3], "definitions": {"queues": [{}]}}, "bad.json")

    assert dlx("simulate", name) == (
        2,
        "",
        "bad.json: definitions.queues[0].name: is missing\n"
        "bad.json: steps[0].at_ms: is missing\n"
        "bad.json: steps[0].op: unknown op 'fly'\n"
        "bad.json: steps[1]: expected an object, got a number\n"
        "bad.json: end_ms: is missing\n",
    )


def test_unsupported_parts_are_reported_and_skipped(dlx, write):
    definitions = {
        "queues": [{"name": "log", "arguments": {"x-queue-type": "stream"}}],
        "shovels": [],
    }

    status, out, err = dlx(
        "simulate", "--json", write({**GOOD, "definitions": definitions, "mine": 1}, "s.json")
    )

    assert (status, json.loads(out)) == (0, {"id": "good", "outcome": OUTCOME})
    places = ("definitions.queues[0]", "definitions.shovels", "mine")
    for line, place in zip(err.splitlines(), places, strict=True):
        assert line.startswith(f"s.json: skipped: {place}: ")


def test_a_repeated_id_is_reported(dlx, write, good):
    again = write([GOOD, GOOD], "again.json")

    status, out, err = dlx("simulate", "--json", good, again)

    assert (status, len(out.splitlines())) == (0, 3)
    for line, file in zip(err.splitlines(), ("good.json", "again.json"), strict=True):
        assert line.startswith("again.json: ")
        assert line.endswith(f"{file}")


def test_a_directory_means_its_files_in_order(dlx, write, tmp_path):
    (tmp_path / "inner").mkdir()
    for name in ("b.json", "a.json", "inner/c.json"):
        write({**GOOD, "id": name}, name)

    _, out, _ = dlx("simulate", "--json", ".")

    assert [json.loads(line)["id"] for line in out.splitlines()] == ["a.json", "b.json"]


def test_no_file_is_a_usage_error(dlx):
    status, out, err = dlx("simulate")

    assert (status, out) == (2, "")
    assert "FILE|DIR" in err


def test_an_unknown_version_is_a_usage_error(dlx, good):
    status, _, err = dlx("simulate", "--compat", "5.0", good)

    assert status == 2
    assert "--compat" in err
