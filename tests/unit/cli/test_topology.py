"""`dlx check`, `dlx route`, `dlx diagram`."""

import json

import pytest

ORDERS = {"name": "orders", "type": "topic", "arguments": {"alternate-exchange": "unrouted"}}
UNROUTED = {"name": "unrouted", "type": "fanout", "internal": True}
DEFINITIONS = {
    "exchanges": [ORDERS, UNROUTED, {"name": "by header", "type": "headers"}],
    "queues": [{"name": "audit"}, {"name": "billing"}, {"name": "lost"}],
    "bindings": [
        {"source": "orders", "destination": "audit", "routing_key": "order.#"},
        {"source": "orders", "destination": "billing", "routing_key": "order.*.created"},
        {"source": "unrouted", "destination": "lost"},
        {"source": "by header", "destination": "billing", "arguments": {"n": 1}},
        {"source": "by header", "destination": "audit", "arguments": {"n": "1"}},
    ],
}
MISTAKE = {"queues": [{"name": "work", "arguments": {"x-dead-letter-exchange": "amq.topci"}}]}
TWO_VHOSTS = {
    "vhosts": [{"name": "a"}, {"name": "b"}],
    "queues": [{"name": "one", "vhost": "a"}, {"name": "two", "vhost": "b"}],
}


def test_check_says_that_definitions_are_valid(dlx, write):
    file = write(DEFINITIONS)

    assert dlx("check", file) == (0, "definitions.json: valid, no warnings\n", "")
    assert dlx("check", file, "--strict") == (0, "definitions.json: valid, no warnings\n", "")


def test_check_prints_lint_on_stdout_and_minds_it_only_when_strict(dlx, write):
    file = write(MISTAKE)

    lax, strict = dlx("check", file), dlx("check", file, "--strict")

    assert (lax[0], strict[0]) == (0, 1)
    assert lax[1:] == strict[1:]
    missing, unreachable, summary = lax[1].splitlines()
    assert missing.startswith("definitions.json: warning: queue 'work': its dead-letter exchange")
    assert "(did you mean 'amq.topic'?)" in missing
    assert unreachable.startswith("definitions.json: warning: queue 'work': no binding")
    assert (summary, lax[2]) == ("definitions.json: valid, 2 warnings", "")


def test_check_prints_every_problem_on_stderr_one_a_line(dlx, write):
    file = write(
        {
            "queues": [{"name": "work", "arguments": {"x-message-ttl": -1}}],
            "bindings": [{"source": "odrers", "destination": "wrok"}],
            "exchanges": [{"name": "orders", "type": "topic"}],
        }
    )

    status, out, err = dlx("check", file)

    assert status == 2
    assert "warning: exchange 'orders': no binding leads" in out
    in_file = "definitions.json: "
    assert [line.rpartition("; ")[0] for line in err.splitlines()] == [
        f"{in_file}queues[0].arguments.x-message-ttl: must not be negative, but is -1",
        f"{in_file}bindings[0].source: no exchange is named 'odrers' (did you mean 'orders'?)",
        f"{in_file}bindings[0].destination: no queue is named 'wrok' (did you mean 'work'?)",
    ]


def test_check_names_unsupported_items_and_counts_them_when_strict(dlx, write):
    file = write({"parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": {}}]})

    lax, strict = dlx("check", file), dlx("check", file, "--strict")

    assert (lax[0], strict[0]) == (0, 1)
    assert lax[1:] == strict[1:]
    skipped, summary = lax[1].splitlines()
    assert skipped.startswith("definitions.json: skipped: parameters[0]: 'shovel' parameters are")
    assert summary == "definitions.json: valid, 1 skipped, no warnings"


@pytest.mark.parametrize(
    ("document", "code", "path", "meant"),
    [
        (
            {"queues": [{"name": "q", "arguments": {"x-dead-letter-exchnge": "x"}}]},
            "unknown-argument",
            "queues[0].arguments.x-dead-letter-exchnge",
            "'x-dead-letter-exchange'",
        ),
        (
            {"exchanges": [{"name": "x", "type": "topik"}]},
            "unknown-exchange-type",
            "exchanges[0].type",
            "'topic'",
        ),
        (
            {"policies": [{"name": "p", "pattern": "", "definition": {"mesage-ttl": 1}}]},
            "unknown-policy-key",
            "policies[0].definition.mesage-ttl",
            "'message-ttl'",
        ),
        ({"queus": []}, "unknown-member", "queus", "'queues'"),
    ],
)
def test_a_misspelt_name_counts_when_strict(dlx, write, document, code, path, meant):
    status, out, err = dlx("check", write(document), "--strict", "--json")

    (finding,) = [each for each in map(json.loads, out.splitlines()) if each["code"] == code]
    assert (status, err) == (1, "")
    assert (finding["severity"], finding["path"]) == ("skipped", path)
    assert f"did you mean {meant}" in finding["message"]


def test_all_stages_are_reported_at_once_as_json(dlx, write):
    queue = {
        "name": "work",
        "durable": "yes",
        "arguments": {"x-message-ttl": -1, "x-max-length": "many", "x-expires": 0, "x-mine": 1},
    }
    document = {
        "queues": [queue, {"name": "log", "type": "stream"}, {"name": "idle"}],
        "bindings": [{"source": "amq.topic", "destination": "wrok"}],
    }

    status, out, err = dlx("check", write(document), "--json")

    findings = [json.loads(line) for line in out.splitlines()]
    assert (status, err) == (2, "")
    assert {(each["severity"], each["code"], each["path"]) for each in findings} == {
        ("error", "wrong-type", "queues[0].durable"),
        ("error", "invalid-queue", "queues[0].arguments.x-message-ttl"),
        ("error", "invalid-queue", "queues[0].arguments.x-max-length"),
        ("error", "invalid-queue", "queues[0].arguments.x-expires"),
        ("error", "unknown-name", "bindings[0].destination"),
        ("skipped", "unknown-argument", "queues[0].arguments.x-mine"),
        ("skipped", "unknown-queue-type", "queues[1]"),
        ("warning", "unreachable-queue", "queues[2]"),
    }
    assert all(each["file"] == "definitions.json" and each["remedy"] for each in findings)
    assert all(each.keys() == findings[0].keys() for each in findings)


def test_several_files_are_checked_at_once(dlx, write):
    valid, broken = write({}, "valid.json"), write("{", "broken.json")

    status, out, err = dlx("check", valid, broken)

    assert (status, out) == (2, "valid.json: valid, no warnings\n")
    assert err.startswith("broken.json: document: is not JSON")


def test_check_tells_vhosts_apart(dlx, write):
    status, out, _ = dlx("check", write(TWO_VHOSTS))

    assert status == 0
    assert [line.split(": no binding")[0] for line in out.splitlines()] == [
        "definitions.json: warning: vhost 'a': queue 'one'",
        "definitions.json: warning: vhost 'b': queue 'two'",
        "definitions.json: valid, 2 warnings",
    ]


@pytest.mark.parametrize("text", ["", "{", '{"queues": ', "\x00", "[" * 100_000])
def test_text_that_is_not_json_is_a_problem_of_the_document(dlx, write, text):
    status, out, err = dlx("check", write(text))

    assert (status, out) == (2, "")
    assert err.startswith("definitions.json: document: is not JSON: ")
    assert err.count("\n") == 1


def test_a_file_that_does_not_exist_is_a_usage_error(dlx):
    status, out, err = dlx("check", "no/such/file.json")

    assert (status, out) == (2, "")
    assert "no/such/file.json" in err


def test_the_definitions_of_a_scenario_are_meant_when_the_file_is_one(dlx, write):
    scenario = {"id": "s", "definitions": MISTAKE, "steps": [], "end_ms": 0}

    status, out, _ = dlx("check", write(scenario))

    assert (status, out.splitlines()[-1]) == (0, "definitions.json: valid, 2 warnings")


def test_lint_follows_the_chosen_version(dlx, write):
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "work",
    }
    file = write({"queues": [{"name": "work", "arguments": arguments}]})

    on_4_0 = dlx("check", file, "--strict")
    on_3_10 = dlx("check", file, "--strict", "--compat", "3.10")

    assert on_4_0[0] == 1
    assert "work -(delivery_limit)-> work" in on_4_0[1]
    assert on_3_10 == (0, "definitions.json: valid, no warnings\n", "")


def test_route_shows_each_step_and_the_queues(dlx, write):
    assert dlx("route", write(DEFINITIONS), "orders", "order.eu.created") == (
        0,
        "exchange 'orders' -> queue 'audit' by binding 'order.#'\n"
        "exchange 'orders' -> queue 'billing' by binding 'order.*.created'\n"
        "queues: audit, billing\n",
        "",
    )


def test_route_goes_through_an_alternate_exchange(dlx, write):
    assert dlx("route", write(DEFINITIONS), "orders", "invoice") == (
        0,
        "exchange 'orders' -> exchange 'unrouted' by alternate exchange\n"
        "exchange 'unrouted' -> queue 'lost' by binding ''\n"
        "queues: lost\n",
        "",
    )


def test_route_says_where_an_alternate_exchange_is_missing(dlx, write):
    file = write({"exchanges": [{"name": "x", "arguments": {"alternate-exchange": "y"}}]})

    assert dlx("route", file, "x", "k") == (
        0,
        "exchange 'x' -> exchange 'y' by missing alternate exchange\n"
        "no queue: dropped, or returned if mandatory\n",
        "",
    )


def test_route_through_the_default_exchange_goes_by_name(dlx, write):
    assert dlx("route", write(DEFINITIONS), "", "audit") == (
        0,
        "default exchange -> queue 'audit' by its name\nqueues: audit\n",
        "",
    )


def test_a_destination_that_was_reached_before_is_marked(dlx, write):
    file = write(
        {
            "exchanges": [{"name": "x", "type": "fanout"}],
            "bindings": [{"source": "x", "destination": "x", "destination_type": "exchange"}],
        }
    )

    _, out, _ = dlx("route", file, "x", "")

    assert out.splitlines()[0] == "exchange 'x' -> exchange 'x' by binding '' (reached before)"


@pytest.mark.parametrize(
    ("value", "queue", "arguments"),
    [("1", "billing", '{"n":1}'), ('"1"', "audit", '{"n":"1"}')],
)
def test_a_header_has_the_type_that_its_json_has(dlx, write, value, queue, arguments):
    assert dlx("route", write(DEFINITIONS), "by header", "", "--header", f"n={value}") == (
        0,
        f"exchange 'by header' -> queue '{queue}' by binding '' {arguments}\nqueues: {queue}\n",
        "",
    )


def test_a_header_that_is_not_json_is_text(dlx, write):
    binding = {"source": "x", "destination": "q", "arguments": {"colour": "red=dark"}}
    file = write(
        {
            "exchanges": [{"name": "x", "type": "headers"}],
            "queues": [{"name": "q"}],
            "bindings": [binding],
        }
    )

    _, out, _ = dlx("route", file, "x", "", "--header", "colour=red=dark", "--header", "more=1")

    assert out.splitlines()[-1] == "queues: q"


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("n", "expected NAME=VALUE, got 'n'"),
        ("=1", "expected NAME=VALUE, got '=1'"),
        ('n={"$bytes": 1}', "n: $bytes must hold base64 text"),
    ],
)
def test_a_header_that_says_nothing_is_a_usage_error(dlx, write, header, complaint):
    status, _, err = dlx("route", write(DEFINITIONS), "orders", "k", "--header", header)

    assert status == 2
    assert complaint in err


def test_cc_and_bcc_add_routing_keys_and_bcc_is_no_header_any_more(dlx, write):
    definitions = write(DEFINITIONS)
    everywhere = ("--header", 'CC=["order.1.created", 5]', "--header", 'BCC=["billing"]')

    through_orders = dlx("route", definitions, "orders", "no", *everywhere)
    by_name = dlx("route", definitions, "", "audit", *everywhere)

    assert through_orders[1].endswith("queues: audit, billing\n")
    assert by_name[1].endswith("queues: audit, billing\n")


def test_a_cc_header_that_is_no_array_is_a_usage_error(dlx, write):
    status, _, err = dlx("route", write(DEFINITIONS), "orders", "k", "--header", "CC=order")

    assert status == 2
    assert "CC must be an array, as in CC='[\"key\"]'" in err


def test_an_unknown_exchange_is_refused_with_a_suggestion(dlx, write):
    assert dlx("route", write(DEFINITIONS), "ordres", "k") == (
        2,
        "",
        "EXCHANGE: no exchange is named 'ordres' in vhost '/' of definitions.json "
        "(did you mean 'orders'?)\n",
    )


def test_route_from_an_internal_exchange_notes_that_no_client_can_do_that(dlx, write):
    status, out, err = dlx("route", write(DEFINITIONS), "unrouted", "k")

    assert (status, out.splitlines()[-1]) == (0, "queues: lost")
    assert err == "note: exchange 'unrouted' is internal: clients may not publish to it\n"


def test_where_there_are_several_vhosts_one_must_be_named(dlx, write):
    file = write(TWO_VHOSTS)

    assert dlx("route", file, "", "two", "--vhost", "b")[1].endswith("queues: two\n")
    assert dlx("route", file, "", "two") == (
        2,
        "",
        "--vhost: definitions.json has several vhosts, choose one: 'a', 'b'\n",
    )
    assert dlx("diagram", file, "--vhost", "c") == (
        2,
        "",
        "--vhost: definitions.json has no vhost 'c'\n",
    )


def test_diagram_speaks_mermaid_or_dot(dlx, write):
    file = write({"queues": [{"name": "q"}]})

    assert dlx("diagram", file) == (0, 'flowchart LR\n    q0[("q")]\n', "")
    assert dlx("diagram", file, "--format", "dot") == (
        0,
        'digraph topology {\n    rankdir=LR;\n    q0 [shape=cylinder, label="q"];\n}\n',
        "",
    )


def test_diagram_knows_no_other_language(dlx, write):
    status, _, err = dlx("diagram", write({}), "--format", "svg")

    assert status == 2
    assert "svg" in err


SKIPPED = {
    "exchanges": [
        {"name": "orders", "type": "topic"},
        {"name": "later", "type": "x-delayed-message"},
    ],
    "queues": [{"name": "audit"}, {"name": "log", "type": "stream"}],
    "bindings": [
        {"source": "orders", "destination": "audit", "routing_key": "order.#"},
        {"source": "orders", "destination": "log", "routing_key": "#"},
        {
            "source": "orders",
            "destination": "later",
            "destination_type": "exchange",
            "routing_key": "#.later",
        },
        {"source": "later", "destination": "audit", "routing_key": "x"},
    ],
}


def test_route_marks_what_is_skipped_and_names_the_queues_that_rabbitmq_would_reach(dlx, write):
    status, out, err = dlx("route", write(SKIPPED), "orders", "order.later")

    hops, queues = out.splitlines()[:3], out.splitlines()[3:]
    assert status == 0
    assert sum("(skipped: " in hop for hop in hops) == 2
    assert queues == ["queues: audit", "skipped, and reached in RabbitMQ: log"]
    assert [line.split(": ")[2] for line in err.splitlines()] == ["exchanges[1].type", "queues[1]"]


def test_a_message_for_a_skipped_queue_alone_is_not_silently_dropped(dlx, write):
    _, out, _ = dlx("route", write(SKIPPED), "orders", "invoice")

    assert out.splitlines()[1:] == [
        "no queue: dropped, or returned if mandatory",
        "skipped, and reached in RabbitMQ: log",
    ]


def test_route_from_a_skipped_exchange_is_refused(dlx, write):
    status, out, err = dlx("route", write(SKIPPED), "later", "x")

    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("EXCHANGE: exchange 'later' of definitions.json is")


@pytest.mark.parametrize(("picture", "grey"), [("mermaid", ":::skipped"), ("dot", "style=dashed")])
def test_diagram_draws_what_is_skipped_in_grey(dlx, write, picture, grey):
    status, out, err = dlx("diagram", write(SKIPPED), "--format", picture)

    nodes = [line for line in out.splitlines() if "later" in line or '"log' in line]
    assert status == 0
    assert all(grey in line for line in nodes if "skipped" in line)
    assert sum("skipped" in line and grey in line for line in nodes) == 2
    assert "x-delayed-message exchange" in out
    assert "queues[1]" in err


def test_a_command_names_a_few_skipped_items_and_the_number_of_the_others(dlx, write):
    arguments = {f"x-mine-{number}": 1 for number in range(15)}

    _, _, err = dlx("diagram", write({"queues": [{"name": "q", "arguments": arguments}]}))

    assert len(err.splitlines()) == 11
    assert "5 more; `dlx check definitions.json` lists them" in err


def test_route_has_its_steps_as_json_and_csv(dlx):
    route = ("route", "examples/shop/definitions.json", "orders", "order.eu.created")

    status, out, err = dlx(*route, "-o", "json")
    steps = [json.loads(line) for line in out.splitlines()]
    header, *rows = dlx(*route, "-o", "csv")[1].splitlines()

    assert (status, err) == (0, "")
    assert [step["destination"] for step in steps] == ["work", "audit", "billing"]
    assert all(step["via"] == "binding" and step["routing_key"] for step in steps)
    assert header.split(",") == list(steps[0])
    assert len(rows) == len(steps)
