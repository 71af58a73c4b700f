"""`dlx definitions plan A B`: two files compared without a job."""

import json

import pytest

DECLARED = {
    "exchanges": [{"name": "orders", "type": "topic"}],
    "queues": [{"name": "work", "arguments": {"x-max-length": 5}}, {"name": "old"}],
    "policies": [{"name": "p", "pattern": "", "definition": {"max-length": 1}}],
}
WANTED = {
    "exchanges": [{"name": "orders", "type": "topic"}],
    "queues": [
        {"name": "work", "arguments": {"x-max-length": 6}},
        {"name": "new"},
        {"name": "log", "type": "stream"},
    ],
    "bindings": [{"source": "orders", "destination": "old"}],
    "policies": [{"name": "p", "pattern": "", "definition": {"max-length": 2}}],
}


def test_two_files_are_compared_and_a_conflict_is_a_finding(dlx, write):
    declared, wanted = write(DECLARED, "declared.json"), write(WANTED, "wanted.json")

    status, out, err = dlx("definitions", "plan", declared, wanted)

    assert (status, err) == (1, "")
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "~ / policy 'p'",
        "= / exchange 'orders'",
        "! / queue 'work'",
        "+ / queue 'new'",
        "+ / binding 'orders' -> queue 'old'",
        "- / queue 'old'",
        "wanted.json",
    ]
    assert "queues[2]" in out.splitlines()[-1]


def test_every_change_is_one_line_of_json(dlx, write):
    declared, wanted = write(DECLARED, "declared.json"), write(WANTED, "wanted.json")

    _, out, _ = dlx("definitions", "plan", declared, wanted, "--json")

    changes = [json.loads(line) for line in out.splitlines()]
    assert {(each["vhost"], each["effect"], each["kind"], each["name"]) for each in changes} >= {
        ("/", "conflict", "queue", "work"),
        ("/", "absent", "queue", "old"),
        ("/", "skipped", "unknown-queue-type", "queues[2]"),
    }


def test_a_vhost_that_only_the_first_file_has_is_listed_too(dlx, write):
    declared = write(
        {"vhosts": [{"name": "a"}, {"name": "b"}], "queues": [{"name": "q", "vhost": "b"}]},
        "declared.json",
    )
    wanted = write({"vhosts": [{"name": "a"}], "queues": []}, "wanted.json")

    assert dlx("definitions", "plan", declared, wanted)[:2] == (
        0,
        "- b queue 'q': not in the document, and stays\n",
    )
    assert dlx("definitions", "plan", declared, wanted, "--vhost", "a")[:2] == (0, "")


def test_every_problem_of_a_file_is_told_with_its_name_and_path(dlx, write):
    declared = write({"queues": [{"name": "q", "durable": "yes"}]}, "declared.json")
    wanted = write(
        {
            "vhosts": [{"name": "/"}, {"name": "x"}],
            "queues": [
                {"name": "q", "vhost": "x"},
                {"name": "q", "vhost": "/", "arguments": {"x-expires": 0}},
            ],
        },
        "wanted.json",
    )

    broken, invalid = (
        dlx("definitions", "plan", declared, wanted),
        dlx("definitions", "plan", wanted, wanted),
    )

    assert (broken[0], broken[1]) == (2, "")
    assert broken[2].startswith("declared.json: queues[0].durable: ")
    assert (invalid[0], invalid[1]) == (2, "")
    assert invalid[2].startswith("wanted.json: queues[1].arguments.x-expires: ")


def test_what_is_skipped_in_either_file_is_listed_with_its_file(dlx, write):
    stream = {"queues": [{"name": "log", "type": "stream"}, {"name": "old"}]}
    declared, wanted = write(stream, "declared.json"), write(WANTED, "wanted.json")

    _, out, _ = dlx("definitions", "plan", declared, wanted)
    _, as_json, _ = dlx("definitions", "plan", declared, wanted, "--json")

    assert [line.split(": ")[:3] for line in out.splitlines() if ": skipped: " in line] == [
        ["wanted.json", "skipped", "queues[2]"],
        ["declared.json", "skipped", "queues[0]"],
    ]
    changes = [json.loads(line) for line in as_json.splitlines()]
    skipped = [each for each in changes if each["effect"] == "skipped"]
    assert [(each["file"], each["vhost"], each["name"]) for each in skipped] == [
        ("wanted.json", "/", "queues[2]"),
        ("declared.json", "/", "queues[0]"),
    ]


def test_what_is_skipped_in_another_vhost_of_the_first_file_is_not_listed(dlx, write):
    two = [{"name": "a"}, {"name": "b"}]
    stream = {"name": "log", "vhost": "b", "type": "stream"}
    declared = write({"vhosts": two, "queues": [stream]}, "declared.json")
    wanted = write({"vhosts": two}, "wanted.json")

    assert dlx("definitions", "plan", declared, wanted, "--vhost", "a") == (0, "", "")
    assert "declared.json" in dlx("definitions", "plan", declared, wanted, "--vhost", "b")[1]


@pytest.mark.parametrize("vhosts", [[{"name": "elsewhere"}], 5])
def test_the_problems_of_a_file_are_told_before_a_vhost_must_be_chosen(
    dlx, write, tmp_path, vhosts
):
    config = tmp_path / "dlx.toml"
    config.write_text("[vhosts.a]\n[vhosts.b]\n")
    file = write({"vhosts": vhosts, "queues": [{"name": 5}]}, "broken.json")

    status, out, err = dlx("definitions", "import", "--dry-run", file, "--config", config)

    assert (status, out) == (2, "")
    assert "broken.json: queues[0].name: " in err
    assert "--vhost" not in err
