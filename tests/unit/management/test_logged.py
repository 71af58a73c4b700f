"""Does what the API changes last in the log, and is what cannot be changed refused in words?"""

import asyncio
import string
from random import Random

import pytest

from streaming.amqp.login import User, new_password_hash
from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.events import Actor
from streaming.management import sessions
from streaming.management.errors import ApiError
from streaming.management.formats import NODE
from streaming.management.kept import Kept, Versions
from streaming.management.port import VhostInfo
from streaming.protocol.log_records import LogKind, read_command, read_header
from streaming.sequencer.log_vhost import LogVhost
from tests.management_on_log import OnLog

ANN = ("ann", "secret")
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


NOISE = "".join(Random(1).choices(string.ascii_letters + string.digits, k=2_000_000))
"""Text that takes as much in a record of the log, which is compressed, nearly."""


@pytest.fixture
def first():
    return OnLog()


def a_message(body: str) -> dict[str, object]:
    return {
        "routing_key": "q",
        "payload": body,
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2},
    }


def commands_in(on_log: OnLog) -> list[tuple[str | None, str, Command]]:
    """User, channel and command of each record of one."""
    found = []
    for record in on_log.port.records:
        header = read_header(record.header)
        if header.kind == LogKind.COMMAND:
            found.append((header.user, header.channel, read_command(record.value or b"")))
    return found


def test_all_that_was_made_is_there_after_a_restart(first):
    api = first.api
    assert api.put("users/ann", {"password": "secret", "tags": "management"}) == 201
    assert api.put("users/ann", {"password": "secret", "tags": "policymaker"}) == 204
    assert api.put("permissions/%2F/ann", EVERYTHING) == 201
    assert api.put("queues/%2F/q", {"durable": True}) == 201
    api.put("policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}})
    api.put("global-parameters/colour", {"value": {"is": ["red", None]}})
    api.put("cluster-name", {"name": "blue"})
    api.put("vhosts/%2F", {"description": "orders", "tags": "a,b", "default_queue_type": "quorum"})
    api.put("vhost-limits/%2F/max-queues", {"value": 7})
    path = "exchanges/%2F/amq.default/publish"
    assert api.ask("POST", path, a_message("hello"), ANN).json() == {"routed": True}
    memory = api.get(f"nodes/{NODE}/memory")["memory"]
    assert 5 < memory["queue_procs"] == first.vhost.stored.held_bytes

    again = OnLog(first)
    api = again.api

    assert again.server.server_properties["cluster_name"] == "blue"
    assert api.get("whoami", ANN) == {
        "name": "ann",
        "tags": ["policymaker"],
        "is_internal_user": True,
    }
    queue = api.get("queues/%2F/q", ANN)
    assert (queue["messages_ready"], queue["policy"]) == (1, "p")
    assert api.get("global-parameters/colour")["value"] == {"is": ["red", None]}
    assert api.get("vhosts/%2F")["metadata"]["description"] == "orders"
    assert api.get("vhosts/%2F")["tags"] == ["a", "b"]
    api.put("queues/%2F/later", {"durable": True})
    assert api.get("queues/%2F/later")["type"] == "quorum"
    assert api.get("vhost-limits/%2F")[0]["value"] == {"max-queues": 7}
    asked = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (got,) = api.ask("POST", "queues/%2F/q/get", asked, ANN).json()
    assert got["payload"] == "hello"


def test_an_administrator_has_the_permissions_that_need_no_record(first):
    first.vhost.shard.vhost.administrators = ("guest", "nobody")
    api = first.api
    everything = {"user": "guest", "vhost": "/", **EVERYTHING}

    assert api.get("permissions/%2F/guest") == everything
    assert api.get("users/guest/permissions") == api.get("permissions") == [everything]
    assert api.get("users/without-permissions") == []
    refused = api.ask("DELETE", "permissions/%2F/guest")
    assert (refused.status_code, "put empty ones instead" in refused.text) == (400, True)

    api.put("permissions/%2F/guest", {**EVERYTHING, "write": ""})
    assert api.get("permissions") == [{**everything, "write": ""}]
    assert api.ask("DELETE", "permissions/%2F/guest").status_code == 204


def test_what_was_deleted_stays_deleted(first):
    api = first.api
    api.put("users/ann", {"password": "secret", "tags": "administrator"})
    api.put("global-parameters/colour", {"value": 1})

    assert api.ask("DELETE", "users/guest", user=ANN).status_code == 204
    assert api.ask("DELETE", "global-parameters/colour", user=ANN).status_code == 204
    assert api.ask("DELETE", "global-parameters/colour", user=ANN).status_code == 404

    api = OnLog(first).api
    assert api.ask("GET", "whoami").status_code == 401
    names = [one["name"] for one in api.get("global-parameters", ANN)]
    assert names == ["internal_cluster_id"]
    api.put("users/guest", {"password": "guest", "tags": "management"}, ANN)
    assert OnLog(OnLog(first)).api.ask("GET", "whoami").status_code == 401


def test_users_of_files_are_changed_in_the_files(first):
    ann = User("ann", new_password_hash("secret"), tags=("administrator",))
    api = OnLog(first, users=(ann,)).api
    reason = "user 'ann' is set in dlx.toml or by --definitions: change it there"
    refused = (400, "bad_request", reason)

    assert api.refusal("PUT", "users/ann", {"password": "x", "tags": ""}, ANN) == refused
    assert api.refusal("DELETE", "users/ann", user=ANN) == refused
    same = {"users": [api.get("users/ann", ANN)]}
    assert api.ask("POST", "definitions", same, ANN).status_code == 204
    other = {"users": [{"name": "bob", "tags": "", "password_hash": ""}, same["users"][0]]}
    other["users"][1]["tags"] = []
    assert api.refusal("POST", "definitions", other, ANN) == refused
    assert [one["name"] for one in api.get("users", ANN)] == ["ann"]


def test_a_log_does_not_change_users_of_files(first):
    first.api.put("users/ann", {"password": "other", "tags": ""})
    ann = User("ann", new_password_hash("secret"), tags=("administrator",))

    assert OnLog(first, users=(ann,)).api.get("whoami", ANN)["tags"] == ["administrator"]


def test_a_vhost_is_made_and_deleted_with_what_is_in_it(first):
    assert first.api.ask("PUT", "vhosts/new", {"description": "orders"}).status_code == 201
    assert first.api.ask("PUT", "vhosts/new", {"description": "orders"}).status_code == 204
    assert first.api.get("vhosts/new")["description"] == "orders"
    assert first.api.get("permissions/new/guest")["write"] == ".*"
    first.api.put("queues/new/q", {})
    first.api.put("policies/new/p", {"pattern": "^q", "definition": {"max-length": 5}})
    there = first.server.vhosts["new"].shard.vhost
    assert list(there.queues) == ["q"]

    assert first.api.ask("DELETE", "vhosts/new").status_code == 204

    assert (list(there.queues), there.definitions().policies) == ([], ())
    assert first.api.refusal("GET", "vhosts/new")[0] == 404


def test_in_a_vhost_that_was_made_administrators_have_recorded_permissions_alone(first):
    api, guest = first.api, "permissions/new/guest"
    assert first.vhost.shard.vhost.administrators == ("guest",)
    api.ask("PUT", "vhosts/new", {})
    assert api.get("users/guest/permissions")[1]["vhost"] == "new"

    assert api.ask("DELETE", guest).status_code == 204

    assert api.refusal("DELETE", guest)[0] == api.refusal("GET", guest)[0] == 404
    assert [one["vhost"] for one in api.get("users/guest/permissions")] == ["/"]
    assert api.refusal("DELETE", "permissions/%2F/guest")[0] == 400


def test_what_waits_for_the_log_of_a_vhost_that_is_deleted_meanwhile_is_done(first):
    by = Actor(None, "management guest")

    async def run() -> None:
        front = first.front
        await front.put_user(User("ann", None), by)
        await front.put_vhost("new", VhostInfo(), by)
        vhost, port = front.server.vhosts["new"], first.vhosts.ports["new"]
        assert isinstance(vhost, LogVhost)
        port.is_full = True
        waiting = [
            asyncio.ensure_future(front.delete_user("ann", by)),
            asyncio.ensure_future(front.put_global_parameter("colour", 1, by)),
        ]
        one = front.do(vhost, by, commands.ClearPermissions(user="ann"))
        waiting.append(asyncio.ensure_future(one))
        await asyncio.sleep(0.1)
        assert not any(each.done() for each in waiting)
        deleting = asyncio.ensure_future(front.delete_vhost("new", by))
        await asyncio.sleep(0)
        port.is_full = False
        vhost.send_rest()
        await deleting
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert results[:2] == [None, True]
        assert isinstance(results[2], ApiError)
        assert results[2].status == 404

    asyncio.run(run())
    assert "ann" not in first.server.users.by_name
    assert first.front.global_parameters()["colour"] == 1


def test_the_log_of_a_vhost_has_the_users_who_were_there_when_it_was_made(first):
    """A front that leads nothing else knows them by it."""
    for name in ("ann", "bob"):
        first.api.put(f"users/{name}", {"password": "secret", "tags": ""})
    first.api.put("global-parameters/colour", {"value": 1})
    first.api.ask("DELETE", "users/bob")

    assert first.api.put("vhosts/new", {"description": "orders"}) == 201

    of_new, of_first = (
        {key: one for key, one in vhost.shard.vhost.parameters.items() if key[0] != "vhost"}
        for vhost in (first.server.vhosts["new"], first.vhost)
    )
    assert of_new == of_first
    assert len(of_new) == 3


def test_a_vhost_that_is_deleted_while_its_maker_waits_is_not_there(first, monkeypatch):
    put_vhost = first.front.put_vhost

    async def deleting(name: str, info: VhostInfo, by: Actor) -> bool:
        is_new: bool = await put_vhost(name, info, by)
        first.server.delete_vhost(name)
        return is_new

    monkeypatch.setattr(first.front, "put_vhost", deleting)

    refusal = (503, "not_known", "vhost 'new' was deleted meanwhile")
    assert first.api.refusal("PUT", "vhosts/new", {}) == refusal


def test_definitions_make_vhosts(first):
    document = {"vhosts": [{"name": "new"}], "queues": [{"name": "q", "vhost": "new"}]}

    assert first.api.ask("POST", "definitions", document).status_code == 204

    assert [one["name"] for one in first.api.get("queues/new")] == ["q"]


def test_a_vhost_that_cannot_be_made_or_deleted_says_why(first):
    refused = (400, "bad_request", "vhost 'bad' cannot be made here")
    assert first.api.refusal("PUT", "vhosts/bad", {}) == refused
    document = {"users": [{"name": "u", "tags": ""}], "vhosts": [{"name": "bad"}]}
    assert first.api.refusal("POST", "definitions", document) == refused
    assert [one["name"] for one in first.api.get("users")] == ["guest"]
    late = (503, "not_known", "Kafka does not answer")
    assert first.api.refusal("PUT", "vhosts/slow", {}) == late
    configured = (400, "bad_request", "vhost '/' is set in dlx.toml")
    assert first.api.refusal("DELETE", "vhosts/%2F") == configured
    elsewhere = "vhost 'elsewhere' is served by another front now"
    assert first.api.refusal("PUT", "vhosts/elsewhere", {}) == (503, "served_elsewhere", elsewhere)
    assert first.api.refusal("GET", "queues/elsewhere/q") == (503, "served_elsewhere", elsewhere)
    assert first.api.refusal("GET", "queues/new/q")[0] == 404


def test_a_standby_says_who_leads(first):
    first.why_not = "this front serves no vhost now"

    for path in ("overview", "health/checks/alarms", "queues/%2F/q"):
        assert first.api.refusal("GET", path) == (503, "not_serving", first.why_not)


def test_records_say_who_changed_what_and_events_keep_hashes_secret(first):
    seen = []
    first.vhost.watchers.append(
        lambda events: seen.extend(events.details.values()) if len(events) else None
    )
    first.api.put("users/ann", {"password": "secret", "tags": "administrator"})
    first.api.put("policies/%2F/p", {"pattern": "^q", "definition": {"max-length": 5}}, ANN)
    first.api.put("queues/%2F/q", {})

    by = {type(command).__name__: (user, channel) for user, channel, command in commands_in(first)}
    assert by["SetPolicy"][0] is None
    assert by["SetPolicy"][1].startswith("management ann ")
    assert by["DeclareQueue"][0] == "guest"
    (event,) = [one for one in seen if one["what"] == "parameter_set"]
    assert (event["component"], event["name"]) == ("user", "ann")
    hash_of_ann = first.server.users.by_name["ann"].password_hash
    assert hash_of_ann not in repr(seen)


def test_records_say_who_changed_users_parameters_and_vhosts(first):
    first.api.put("users/ann", {"password": "secret", "tags": "administrator"})
    for path, body in (
        ("users/bob", {"password": "b", "tags": ""}),
        ("user-limits/bob/max-channels", {"value": 3}),
        ("global-parameters/colour", {"value": 1}),
        ("cluster-name", {"name": "blue"}),
        ("vhosts/%2F", {"description": "orders"}),
    ):
        first.api.put(path, body, ANN)
    for path in ("users/bob", "global-parameters/colour"):
        assert first.api.ask("DELETE", path, user=ANN).status_code == 204
    document = {"users": [{"name": "eve", "password_hash": "", "tags": []}]}
    assert first.api.ask("POST", "definitions", document, ANN).status_code == 204

    made, *others = commands_in(first)
    by_ann = [
        (type(command).__name__, getattr(command, "name", ""))
        for _, channel, command in others
        if channel.startswith("management ann ")
    ]
    assert made[1].startswith("management guest ")
    assert by_ann[:5] == [
        ("SetParameter", name) for name in ("bob", "bob", "colour", "cluster_name", "/")
    ]
    assert [each for each in by_ann[5:] if each[0] != "ImportDefinitions"] == [
        ("ClearPermissions", ""),
        ("ClearTopicPermissions", ""),
        *[("SetParameter", name) for name in ("bob", "colour", "eve")],
    ]
    assert len(others) == len([each for each in others if each[1].startswith("management ann ")])


def test_a_command_of_a_user_needs_their_permissions(first):
    first.api.put("users/ann", {"password": "secret", "tags": "management"})
    first.api.put("permissions/%2F/ann", {**EVERYTHING, "configure": "^mine"})

    assert first.api.put("queues/%2F/mine", {}, ANN) == 201
    assert first.api.refusal("PUT", "queues/%2F/other", {}, ANN)[:2] == (401, "not_authorised")
    names = [type(command).__name__ for _, _, command in commands_in(first)]
    assert names.count("OpenChannel") == names.count("CloseChannel") == 2


def test_an_import_larger_than_a_record_is_several(first):
    first.vhost.max_body_bytes = 4_000
    queues = [{"name": f"queue-{number:03}", "vhost": "/"} for number in range(100)]
    bindings = [
        {"source": "x", "vhost": "/", "destination": one["name"], "destination_type": "queue"}
        for one in queues
    ]
    exchanges = [{"name": "x", "vhost": "/", "type": "fanout"}]
    document = {"queues": queues, "bindings": bindings, "exchanges": exchanges}

    assert first.api.ask("POST", "definitions", document).status_code == 204

    assert len(first.api.get("queues")) == 100
    assert len(first.api.get("exchanges/%2F/x/bindings/source")) == 100
    names = [type(command).__name__ for _, _, command in commands_in(first)]
    assert names.count("ImportDefinitions") > 2
    assert len(OnLog(first).api.get("queues")) == 100


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("queues/%2F/q", {"arguments": {"x-note": NOISE[:900_000]}}, "more than a record of the"),
        ("queues/%2F/" + "q" * 300, {}, ""),
        ("queues/%2F/%ff%fe", {}, ""),
        ("global-parameters/p", {"value": "x" * 70_000}, "p: it is longer than 65536"),
        ("global-parameters/" + "p" * 300, {"value": 1}, "it cannot be written to the log"),
    ],
)
def test_what_the_log_could_not_give_back_is_refused(first, path, body, words):
    first.vhost.max_body_bytes = 500_000
    status, _, reason = first.api.refusal("PUT", path, body)

    assert status == 400
    assert words in str(reason)
    assert first.api.put("queues/%2F/after", {}) == 201
    OnLog(first)


SPECIAL = {"h": {"$bytes": "abc"}, "l": [{"$decimal": 1}], "two": {"$timestamp": "x", "b": 1}}
SAID = {"h": {"$$bytes": "abc"}, "l": [{"$$decimal": 1}], "two": {"$timestamp": "x", "b": 1}}


def test_tables_that_json_has_another_meaning_for_are_named_as_from_clients(first):
    """Such a table once ended every fold of the log: the front, the next one and the job."""
    assert first.api.put("queues/%2F/q", {"arguments": SPECIAL}) == 201
    assert first.api.put("exchanges/%2F/e", {"type": "headers", "arguments": SPECIAL}) == 201
    body = {"routing_key": "k", "arguments": SPECIAL}
    assert first.api.ask("POST", "bindings/%2F/e/e/e/amq.fanout", body).status_code == 201
    body = {"pattern": ".", "definition": {"max-length": 1, "message-ttl": {"$bytes": "abc"}}}
    assert first.api.ask("PUT", "policies/%2F/p", body).status_code == 400

    for api in (first.api, OnLog(first).api):
        assert api.get("queues/%2F/q")["arguments"] == {**SAID, "x-queue-type": "classic"}
        assert api.get("exchanges/%2F/e")["arguments"] == SAID
        (binding,) = api.get("exchanges/%2F/e/bindings/source")
        assert binding["arguments"] == SAID


def test_a_message_that_the_log_does_not_take_is_refused(first):
    first.api.put("queues/%2F/q", {})
    first.vhost.max_body_bytes, first.vhost.max_property_bytes = 10, 100
    path = "exchanges/%2F/amq.default/publish"

    assert "message size 11 is larger" in first.api.refusal("POST", path, a_message("x" * 11))[2]
    long = a_message("x") | {"properties": {"headers": {"h": "x" * 101}}}
    assert "properties of" in first.api.refusal("POST", path, long)[2]
    long = a_message("x") | {"routing_key": "k" * 256}
    assert first.api.refusal("POST", path, long)[2] == ["too_long", "routing_key"]


def test_a_request_that_holds_messages_for_too_long_says_so(first, monkeypatch):
    first.api.put("queues/%2F/q", {"arguments": {"x-consumer-timeout": 60_000}})
    for number in range(3):
        body = a_message(str(number)) | {"properties": {}}
        first.api.ask("POST", "exchanges/%2F/amq.default/publish", body)
    acknowledge = first.port._acknowledge  # noqa: SLF001 - what Kafka does

    def slowly(vhost):
        first.port.now_ms += 50_000
        acknowledge(vhost)

    monkeypatch.setattr(first.port, "_acknowledge", slowly)
    asked = {"count": 3, "ackmode": "ack_requeue_true", "encoding": "auto"}

    status, _, reason = first.api.refusal("POST", "queues/%2F/q/get", asked)

    assert (status, "held for 60000 ms" in str(reason)) == (400, True)
    assert first.vhost.ready_in("q") == 3


def test_a_request_does_not_wait_for_ever(first, monkeypatch):
    monkeypatch.setattr(sessions, "ANSWER_S", 0.0)
    first.port.is_full = True

    status, error, reason = first.api.refusal("PUT", "queues/%2F/q", {})

    assert (status, error) == (503, "not_known")
    assert reason.startswith("Kafka has not taken it within 0 s: it may have been done")


def test_a_request_ends_when_the_vhost_is_served_here_no_more(first, monkeypatch):
    monkeypatch.setattr(sessions, "_LOOK_S", 0.0)
    first.port.is_full = True
    append = first.port.append

    def lose(vhost, records):
        del first.server.vhosts["/"]
        return append(vhost, records)

    monkeypatch.setattr(first.port, "append", lose)

    status, error, reason = first.api.refusal(
        "PUT", "policies/%2F/p", {"pattern": "", "definition": {"max-length": 1}}
    )

    assert (status, error) == (503, "not_known")
    assert reason.startswith("vhost '/' is served here no more")


def test_parameters_of_others_change_nothing(first):
    text = '{"at_ms": 9999999999999, "value": {"tags": 1}}'
    first.vhost.shard.vhost.parameters |= {
        ("user", "guest"): (text, None),
        ("user", "x"): ("no JSON", None),
        ("other", "x"): ('{"at_ms": 1}', None),
    }

    first.server.add_vhost(first.vhost)

    assert first.api.get("whoami")["name"] == "guest"
    assert [one["name"] for one in first.api.get("users")] == ["guest"]


def test_of_several_versions_the_newest_counts():
    versions = Versions()
    key = ("user", "ann")

    first = versions.learn({key: ('{"at_ms": 5, "value": 1}', None)})
    again = versions.learn({key: ('{"at_ms": 4, "value": 2}', None)})

    assert first[key].kept == Kept(5, 1)
    assert again == {}
    assert versions.next_ms(key, 3) == 6
    assert versions.next_ms(key, 9) == 9


def test_counts_are_taken_while_a_snapshot_is(first):
    document = {"queues": [{"name": f"q{number}", "vhost": "/"} for number in range(300)]}
    assert first.api.ask("POST", "definitions", document).status_code == 204
    first.api.put("queues/%2F/q", {})
    first.api.ask("POST", "exchanges/%2F/amq.default/publish", a_message("x"))
    counting = first.counting

    for _ in counting.sample(5_000, ["/"]):
        first.vhost.snapshot()

    assert counting.queue("/", "q")[0]["publish"] == 1
    assert len(first.api.get("queues")) == 301
    assert first.api.get("queues/%2F/q")["messages"] == 1
    assert first.api.get("overview")["queue_totals"]["messages"] == 1
