"""Definitions: RabbitMQ's export is imported, and exported again as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

RABBITMQ = Path("tests/recordings/definitions.json")
"""Two vhosts and four users of a RabbitMQ 4.0.5, as it exported them."""

VARIED = Path("tests/recordings/varied-definitions.json")
"""Four vhosts of a RabbitMQ 4.0.5 that were made at random: names and arguments of every kind."""

LISTS = (
    "vhosts",
    "users",
    "permissions",
    "topic_permissions",
    "parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)


@pytest.fixture
def exported():
    return json.loads(RABBITMQ.read_text("utf-8"))


def ordered(document: dict[str, Any]) -> dict[str, list[str]]:
    found = {name: document[name] for name in LISTS}
    found["global_parameters"] = [
        one for one in document["global_parameters"] if one["name"].startswith("rt-")
    ]
    for name in ("vhosts", "users"):
        found[name] = [one for one in found[name] if one["name"] not in {"/", "guest"}]
    found["permissions"] = [one for one in found["permissions"] if one["vhost"] != "/"]
    return {
        name: sorted(json.dumps(one, sort_keys=True) for one in items)
        for name, items in found.items()
    }


@pytest.mark.parametrize("path", [RABBITMQ, VARIED])
def test_an_export_of_rabbitmq_is_exported_again_as_it_was(api, path):
    exported = json.loads(path.read_text("utf-8"))

    answer = api.ask("POST", "definitions", exported)

    assert (answer.status_code, answer.headers.get("dlx-skipped")) == (204, None)
    assert ordered(api.get("definitions")) == ordered(exported)


def test_an_import_twice_changes_nothing(api, exported):
    api.ask("POST", "definitions", exported)
    before = api.get("definitions")

    assert api.ask("POST", "definitions", before).status_code == 204

    assert api.get("definitions") == before


def test_the_export_of_one_vhost_names_none(api, exported):
    api.ask("POST", "definitions", exported)

    document = api.get("definitions/rt-a")

    assert document["original_vhost_name"] == "rt-a"
    assert document["limits"] == {"max-connections": -1, "max-queues": 100}
    assert all("vhost" not in one for name in ("queues", "bindings") for one in document[name])
    api.put("vhosts/copy")
    assert api.ask("POST", "definitions/copy", document).status_code == 204
    copy = api.get("definitions/copy")
    for name in ("queues", "exchanges", "bindings", "policies", "parameters", "limits"):
        assert copy[name] == document[name]


def test_columns_of_an_export(api):
    assert api.get("definitions?columns=rabbit_version") == {"rabbit_version": "4.0.5"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"users": [{"name": "x"}]}, "tags_not_present"),
        ({"users": [{"tags": ""}]}, "a user has no name"),
        ({"users": 5}, "users must be an array of objects"),
        (
            {"queues": [{"name": "q", "vhost": [], "arguments": {}}]},
            "queues: the name of a vhost must be a text",
        ),
        (
            {"parameters": [{"name": "p", "vhost": {"a": 1}}]},
            "parameters: the name of a vhost must be a text",
        ),
        ({"queues": [5]}, "queues must be an array of objects"),
        (
            {"queues": [{"name": "q", "vhost": "nowhere"}]},
            'Please create virtual host "nowhere" prior to importing definitions.',
        ),
        (
            {
                "permissions": [
                    {"user": "no", "vhost": "/", "configure": "", "write": "", "read": ""}
                ]
            },
            '{no_such_user,<<"no">>}',
        ),
    ],
)
def test_a_document_that_cannot_be_used_changes_nothing(api, document, reason):
    before = api.get("definitions")
    document = {"vhosts": [{"name": "/"}, {"name": "new"}], **document}

    assert api.refusal("POST", "definitions", document) == (400, "bad_request", reason)

    assert api.get("definitions") == before


def test_a_queue_that_is_there_with_other_arguments_refuses_an_import(api):
    api.put("queues/%2F/q", {"durable": True})
    document = {"queues": [{"name": "q", "vhost": "/", "durable": False}]}

    status, _error, reason = api.refusal("POST", "definitions", document)

    assert status == 400
    assert reason.startswith("inequivalent arg 'durable' for queue 'q' in vhost '/'")


def test_what_one_vhost_refuses_changes_no_user_and_no_other_vhost(api):
    api.put("vhosts/other")
    api.put("queues/other/q", {"durable": True})
    before = api.get("definitions")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    document = {
        "users": [{"name": "new", "tags": ""}],
        "vhosts": [{"name": "fresh"}],
        "permissions": [{"user": "new", "vhost": "/", **everything}],
        "global_parameters": [{"name": "new", "value": 1}],
        "queues": [
            {"name": "first", "vhost": "/", "durable": True},
            {"name": "q", "vhost": "other", "durable": False},
        ],
    }

    status, _error, reason = api.refusal("POST", "definitions", document)

    assert (status, reason.partition(":")[0]) == (
        400,
        "inequivalent arg 'durable' for queue 'q' in vhost 'other'",
    )
    assert api.get("definitions") == before


def test_an_import_may_not_exceed_the_limit_of_queues(api):
    def imported(names):
        queues = [
            {"name": name, "durable": True, "auto_delete": False, "arguments": {}} for name in names
        ]
        return api.refusal("POST", "definitions/%2F", {"queues": queues})

    api.ask("PUT", "vhost-limits/%2F/max-queues", {"value": 2})
    api.put("queues/%2F/a", {"durable": True})

    assert imported("abc") == (
        400,
        "bad_request",
        'Adding 2 queue(s) to virtual host "/" would exceed the limit of 2 queue(s).\n\n'
        "This virtual host currently has 1 queue(s) defined.\n\nImport aborted!",
    )
    assert [queue["name"] for queue in api.get("queues")] == ["a"]
    assert imported("ab") == (204, "", "")
    api.ask("PUT", "vhost-limits/%2F/max-queues", {"value": 1})
    assert imported("ab") == (204, "", "")  # it adds none


def test_a_binding_names_what_is_in_its_own_vhost(api):
    api.put("vhosts/other")
    api.put("queues/other/q", {"durable": True})
    binding = {"source": "amq.topic", "destination": "q", "destination_type": "queue"}
    document = {
        "users": [{"name": "new", "tags": ""}],
        "bindings": [{**binding, "vhost": "/", "routing_key": "", "arguments": {}}],
    }

    status, _error, reason = api.refusal("POST", "definitions", document)

    assert (status, reason) == (400, "bindings[0].destination: no queue is named 'q'")
    assert [user["name"] for user in api.get("users")] == ["guest"]


def test_an_import_of_cleared_limits_clears_limits(api):
    api.put("vhost-limits/%2F/max-queues", {"value": 7})
    cleared = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": []}

    assert api.ask("POST", "definitions", {"parameters": [cleared]}).status_code == 204

    assert api.get("vhost-limits") == []


def test_an_import_says_what_it_skips(api, caplog):
    document = {
        "exchanges": [{"name": "x", "vhost": "/", "type": "x-local-random"}],
        "queues": [{"name": "q", "vhost": "/", "durable": True}],
        "bindings": [
            {"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue"}
        ],
    }

    answer = api.ask("POST", "definitions", document)

    assert (answer.status_code, answer.headers["dlx-skipped"]) == (204, "2")
    assert "exchanges[0].type: exchange type 'x-local-random' is not supported" in caplog.text
    assert "bindings[0]: the exchange 'x' is skipped" in caplog.text
    again = api.ask("POST", "definitions", {"queues": document["queues"]})
    assert "dlx-skipped" not in again.headers


def test_queues_have_the_default_type_of_their_vhost(api):
    document = {
        "vhosts": [{"name": "v", "default_queue_type": "quorum"}],
        "queues": [
            {"name": "default", "vhost": "v", "durable": True},
            {"name": "classic", "vhost": "v", "arguments": {"x-queue-type": "classic"}},
            {"name": "short", "vhost": "v", "durable": False},
        ],
    }

    assert api.ask("POST", "definitions", document).status_code == 204

    types = {queue["name"]: queue["type"] for queue in api.get("queues/v")}
    assert types == {"default": "quorum", "classic": "classic", "short": "classic"}


@pytest.mark.parametrize("where", ["document", "metadata", "vhost"])
def test_arguments_of_quorum_queues_fit_the_default_type_of_a_vhost(api, where):
    document: dict[str, Any] = {"name": "v", "default_queue_type": "quorum"}
    if where == "metadata":
        document = {"name": "v", "metadata": {"default_queue_type": "quorum"}}
    if where == "vhost":
        api.put("vhosts/v", {"default_queue_type": "quorum"})
    arguments = {"x-dead-letter-strategy": "at-most-once", "x-delivery-limit": 5}
    queue = {"name": "q", "vhost": "v", "durable": True, "arguments": arguments}
    vhosts = [] if where == "vhost" else [document]

    answer = api.ask("POST", "definitions", {"vhosts": vhosts, "queues": [queue]})

    assert answer.status_code == 204, answer.text
    assert "dlx-skipped" not in answer.headers
    assert api.get("queues/v/q")["type"] == "quorum"


def test_what_is_kept_without_an_effect_is_not_skipped(api):
    queue = {"name": "q", "vhost": "/", "durable": True, "arguments": {"x-custom": 1}}
    policy = {"name": "p", "vhost": "/", "pattern": "", "definition": {"queue-mode": "lazy"}}

    answer = api.ask("POST", "definitions", {"queues": [queue], "policies": [policy]})

    assert "dlx-skipped" not in answer.headers
    assert api.get("queues/%2F/q")["arguments"]["x-custom"] == 1
    assert api.get("policies/%2F/p")["definition"] == {"queue-mode": "lazy"}


def test_global_parameters_are_not_skipped(api):
    parameters = [{"name": "a", "value": {}}, {"name": "b", "value": {"c": {}}}]

    answer = api.ask("POST", "definitions", {"global_parameters": parameters})

    assert "dlx-skipped" not in answer.headers
    assert api.get("global-parameters/a")["value"] == []  # as RabbitMQ keeps it
    assert api.get("global-parameters/b")["value"] == {"c": {}}


def test_the_default_type_of_a_vhost_is_that_of_its_definitions(api, broker):
    broker.load({"vhosts": [{"name": "v", "default_queue_type": "quorum"}]})

    assert api.get("vhosts/v")["default_queue_type"] == "quorum"


BOUNDARY = "----WebKitFormBoundaryx"


def _form(name: str, content: str, boundary: str = BOUNDARY) -> dict[str, Any]:
    parts = (("redirect", ""), (name, content), ("auth", "x"))
    body = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{part}"; filename="file"\r\n'
        f"Content-Type: application/json\r\n\r\n{text}\r\n"
        for part, text in parts
    )
    kind = f"multipart/form-data; boundary={boundary}"
    return {"content": f"{body}--{boundary}--\r\n", "headers": {"content-type": kind}}


@pytest.mark.parametrize("path", ["definitions", "definitions/%2F", "all-configuration"])
def test_definitions_come_as_the_file_of_a_form(api, path):
    document = {"queues": [{"name": "q\r\n--x", "vhost": "/", "durable": True}]}

    answer = api.ask("POST", path, **_form("file", json.dumps(document, indent=1)))

    assert answer.status_code == 204, answer.text
    assert len(api.get("queues")) == 1


@pytest.mark.parametrize(
    "form",
    [
        _form("other", "{}"),
        _form("file", "{"),
        {"headers": {"content-type": "multipart/form-data"}},
    ],
)
def test_a_form_without_a_file_of_definitions_is_refused(api, form):
    answer = api.ask("POST", "definitions", **form)

    assert (answer.status_code, answer.json()["reason"]) == (400, "failed_to_parse_json")


def test_an_export_may_be_a_file(api):
    answer = api.ask("GET", "definitions?download=foo.json&columns=queues")

    assert answer.headers["content-disposition"] == "attachment; filename=foo.json"
    assert answer.json() == {"queues": []}
    assert "content-disposition" not in api.ask("GET", "definitions/%2F").headers
    odd = api.ask("GET", "definitions/%2F?download=a%0D%0Ab:c")
    assert odd.headers["content-disposition"] == "attachment; filename=ab:c"
    assert api.get("all-configuration")["rabbit_version"] == "4.0.5"


@pytest.mark.parametrize(("kind", "status"), [("", 415), ("garbage", 415), ("text/plain", 201)])
def test_a_body_of_no_type_is_refused(api, kind, status):
    headers = {"content-type": kind}
    answer = api.ask("PUT", "queues/%2F/q", content="{}", headers=headers)

    assert answer.status_code == status


def test_with_a_limit_of_no_queues_an_import_is_told_of_none(api):
    api.put("queues/%2F/a", {"durable": True})
    api.ask("PUT", "vhost-limits/%2F/max-queues", {"value": 0})

    _status, _error, reason = api.refusal(
        "POST", "definitions/%2F", {"queues": [{"name": "b", "durable": True}]}
    )

    assert reason == (
        'Adding 1 queue(s) to virtual host "/" would exceed the limit of 0 queue(s).\n\n'
        "This virtual host currently has 0 queue(s) defined.\n\nImport aborted!"
    )


@pytest.mark.parametrize("member", ["users", "vhosts"])
@pytest.mark.parametrize("document", [{}, {"name": 5}])
def test_users_and_vhosts_of_a_document_have_names(api, member, document):
    before = api.get("definitions")

    refusal = api.refusal("POST", "definitions", {member: [document]})

    assert refusal == (400, "bad_request", f"a {member[:-1]} has no name")
    assert api.get("definitions") == before
