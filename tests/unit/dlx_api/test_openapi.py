"""Every path answers as the OpenAPI document says, from tables and in memory."""

import pytest
from jsonschema import Draft202012Validator

from streaming.amqp import methods as m
from streaming.contents.updater import ContentsUpdater
from streaming.dlx_api.questions import QUESTIONS
from tests.amqp_client import RawClient
from tests.dlx_api import DOCUMENT
from tests.management_api import GUEST
from tests.unit.queries.drawing import remove
from tests.unit.queries.redrives.letters import Shop

VHOST = "%2F"
EVERYTHING = {f"{one.method} /{one.path}" for one in QUESTIONS}
OF_MEMORY = {f"{method} /clock" for method in ("GET", "POST")}


@pytest.fixture(scope="module")
def shop(make_api, shop_root):
    return make_api(shop_root)


@pytest.fixture
def redriven(make_api, tmp_path, monkeypatch):
    """Two letters in `dead`, of which an earlier redrive has failed; the API may plan."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    played = Shop(tmp_path / "tables", 2)
    played.approve(played.plan())
    played.kill("work", 2)
    played.recording.commit()
    ContentsUpdater(played.recording.place).update()
    played.recording.close()
    api = make_api(played.recording.root)
    for queue in ("work", "dead"):
        api.ask("PUT", f"queues/%2F/{queue}", {})
    return api


def test_the_document_is_valid_and_has_everything_that_can_be_asked(shop):
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    paths = DOCUMENT["paths"].items()
    assert {f"{method.upper()} {path}" for path, each in paths for method in each} == EVERYTHING
    ids = [each[method]["operationId"] for _, each in paths for method in each]
    assert len(set(ids)) == len(ids)
    assert shop.run(shop.sent("GET", "dlx/openapi.json", user=None)).json() == DOCUMENT


def test_every_question_is_answered_from_tables_as_the_document_says(redriven):
    api = redriven
    letters = api.get("dead-letters", bodies="true", queue="work")
    [message, *_] = [one["message_id"] for one in letters["items"]]
    [redrive] = api.get("redrives")["items"]
    api.get(f"dead-letters/{VHOST}", header="tenant=t1", since="2020-01-01T00:00:00Z")
    api.get("dead-letter-groups", by="queue,cause,header:tenant", new_since="2020-01-01T00:00Z")
    api.get(f"messages/{message.replace('/', '%2F')}")
    api.get("queues", page_size=1)
    api.get(f"queues/{VHOST}", as_of="0")
    api.get(f"queues/{VHOST}/dead/contents", bodies="true")
    api.get(f"queues/{VHOST}/dead/contents", state="unacked")
    api.get(f"queues/{VHOST}/work/changes", **{"from": "0"})
    api.get(f"topology/{VHOST}")
    api.get(f"topology/{VHOST}/diff", **{"from": "0"})
    api.post(f"topology/{VHOST}/diff", {"queues": [{"name": "new", "vhost": "/"}]})
    api.get("balance")
    api.get(f"redrives/{VHOST}")
    api.get(f"redrives/{VHOST}/{redrive['id']}")
    plan = api.post(f"redrives/{VHOST}", {"queue": "work", "reason": "rejected"})
    api.get(f"redrives/{VHOST}/{plan['id']}/plan")
    api.post(f"redrives/{VHOST}/{plan['id']}/approve", {"reason": "mended"})
    api.post(f"redrives/{VHOST}/{plan['id']}/control", {"action": "status", "reason": "a look"})
    api.answer("PUT", f"deployments/{VHOST}/payer", {"version": "2.4.1"}, GUEST, {})

    assert api.asked == EVERYTHING - OF_MEMORY


def test_a_redrive_is_planned_approved_and_told(redriven):
    api = redriven
    [before] = api.get("redrives")["items"]
    outcome = api.get(f"redrives/{VHOST}/{before['id']}", page_size=1, page=2)
    assert (before["died"], before["status"]) == (2, "finished")
    assert [one["fate"] for one in outcome["letters"]["items"]] == ["died"]
    assert outcome["letters"]["filtered_count"] == 2

    plan = api.post(f"redrives/{VHOST}", {"queue": "work", "to": "queue", "name": "work"})
    [group] = plan["groups"]
    assert (plan["letters"], group["now_in"], group["goes_to"]) == (2, "dead", "work")
    assert api.get(f"redrives/{VHOST}/{plan['id']}/plan")["seal"] == plan["seal"]
    done = api.post(f"redrives/{VHOST}/{plan['id']}/approve", {"reason": "mended"})
    # these tables are of another broker, so this one finds no letter where it was
    assert (done["id"], done["total"], done["skipped"]) == (plan["id"], 2, 2)


def test_a_plan_says_where_another_death_would_be_final(redriven):
    plan = redriven.post(f"redrives/{VHOST}", {"queue": "work", "to": "queue", "name": "dead"})

    assert plan["risks"] == [{"queue": "dead", "change": None, "since": None, "is_final": True}]
    assert redriven.get(f"redrives/{VHOST}/{plan['id']}/plan")["risks"] == plan["risks"]


def test_a_plan_without_letters_is_refused(redriven):
    path = f"redrives/{VHOST}"

    status, _, reason = redriven.refusal(path, method="POST", body={"queue": "nosuch"})

    assert (status, reason) == (
        409,
        "There is nothing to move: no letter of the search rests in a queue.",
    )


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "x", "rate": 0}, {"reasn": "x"}])
def test_an_approval_needs_a_reason_and_numbers_from_one(redriven, body):
    plan = redriven.post(f"redrives/{VHOST}", {"queue": "work"})
    path = f"redrives/{VHOST}/{plan['id']}/approve"

    assert redriven.refusal(path, method="POST", body=body)[:2] == (400, "bad_request")


def test_a_plan_of_many_letters_is_approved_by_their_number(make_api, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    played = Shop(tmp_path / "tables", 101)
    played.recording.commit()
    ContentsUpdater(played.recording.place).update()
    played.recording.close()
    api = make_api(played.recording.root)
    plan = api.post(f"redrives/{VHOST}", {"queue": "work"})
    path = f"redrives/{VHOST}/{plan['id']}/approve"

    status, _, reason = api.refusal(path, method="POST", body={"reason": "x"})
    assert (status, reason) == (400, "The plan has 101 letters: give this number as count.")
    assert api.post(path, {"reason": "x", "count": 101})["total"] == 101


def test_letters_have_their_bodies_only_if_these_are_asked_for(shop):
    [one] = shop.get("dead-letters", queue="billing")["items"]
    [other] = shop.get("dead-letters", queue="billing", bodies="true")["items"]

    assert (one["body"], one["body_bytes"], other["body"]) == (None, 7, "order 0")
    assert one["headers"] == {"tenant": "acme", "n": 1}


def test_pages_count_what_there_is(shop):
    found = shop.get("dead-letters", page=2, page_size=1)

    numbers = [found[name] for name in ("item_count", "filtered_count", "page", "page_count")]
    assert numbers == [1, 2, 2, 2]
    assert [one["queue"] for one in found["items"]] == ["billing"]
    assert {one["value"] for one in found["facets"]["queue"]} == {"billing", "mail"}


def test_a_story_has_its_copies_and_deaths(shop):
    story = shop.get("messages/first")

    assert (story["message"]["body"], story["message"]["headers"]["tenant"]) == ("order 0", "acme")
    assert [(one["queue"], one["end"]) for one in story["copies"]] == [
        ("billing", "died"),
        ("dead", "consumed"),
    ]
    assert story["copies"][0]["why"] == "anna rejected it on channel clerk"


def test_queues_and_topology_are_those_of_an_instant(shop):
    def depth(**query):
        [one] = [each for each in shop.get("queues", **query)["items"] if each["name"] == "box"]
        return one["messages_ready"]

    assert (depth(as_of="0"), depth()) == (0, 1)
    names = {one["name"] for one in shop.get(f"topology/{VHOST}")["definitions"]["queues"]}
    assert names == {"billing", "mail", "dead", "box"}
    same = shop.get(f"topology/{VHOST}/diff", **{"from": "0"})
    assert (same["differences"], same["same"]) == ([], 9)


def test_an_import_is_planned(shop):
    document = {"queues": [{"name": "new"}, {"name": "mail", "arguments": {"x-max-length": 1}}]}
    found = shop.post(f"topology/{VHOST}/diff", document)["differences"]

    effects = {(one["effect"], one["name"]) for one in found if one["kind"] == "queue"}
    assert {("create", "new"), ("conflict", "mail"), ("absent", "box")} <= effects
    wrong = shop.post(f"topology/{VHOST}/diff", {"queues": [{"name": 5}]})
    assert (wrong["differences"], wrong["problems"][0]["path"]) == ([], "queues[0].name")


def test_the_balance_closes(shop):
    found = shop.get("balance")

    assert (found["unexplained"], found["vhosts"][0]["messages"]) == (0, 9)
    assert sum(one["published"] for one in found["queues"]) == 6


def test_a_broker_in_memory_answers_from_what_it_has(memory, broker):
    client = RawClient(broker)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.ask(m.QueueDeclare(queue="work", arguments={**arguments, "x-message-ttl": 60_000}))
    client.ask(m.QueueDeclare(queue="dead"))
    client.publish("", "work", b"order 17", message_id="m1", headers={"tenant": "acme"})
    later = memory.post("clock", {"advance": "2 minutes"})

    assert later == memory.get("clock")
    [letter] = memory.get("dead-letters", bodies="true")["items"]
    assert memory.get(f"dead-letters/{VHOST}", queue="work", reason="expired")["item_count"] == 1
    assert memory.get(f"dead-letters/{VHOST}", queue="dead")["items"] == []
    assert (letter["reason"], letter["body"], letter["targets"]) == (
        "expired",
        "order 17",
        ["dead"],
    )
    queues = memory.get("queues", page_size=1, page=1)
    assert (queues["items"][0]["name"], queues["filtered_count"]) == ("dead", 2)
    assert memory.get(f"queues/{VHOST}")["items"][1]["messages"] == 0
    [held] = memory.get(f"queues/{VHOST}/dead/contents")["items"]
    assert (held["properties"]["message_id"], held["headers"]["tenant"]) == ("m1", "acme")
    assert (held["body"], held["body_bytes"]) == (None, 8)
    assert memory.get(f"topology/{VHOST}")["source"] == "memory"
    assert memory.asked >= OF_MEMORY


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("dead-letters", {"cause": "x"}),
        ("dead-letters", {"as_of": "1"}),
        ("dead-letter-groups", {}),
        ("messages/m1", {}),
        ("queues", {"as_of": "1"}),
        ("queues/%2F/work/contents", {"state": "unacked"}),
        ("queues/%2F/work/changes", {"from": "1"}),
        ("topology/%2F/diff", {"from": "1"}),
        ("balance", {}),
        ("redrives", {}),
    ],
)
def test_without_tables_the_answer_says_what_is_needed(memory, path, query):
    status, error, reason = memory.refusal(path, **query)

    assert (status, error) == (409, "no_tables")
    assert reason.endswith("needs the tables of a job, and there are none here")


def test_tables_that_are_not_there_yet_are_named(make_api, tmp_path):
    status, error, reason = make_api(tmp_path / "nothing").refusal("dead-letters")

    assert (status, error) == (409, "no_tables")
    assert str(tmp_path / "nothing") in reason


def test_only_a_clock_in_memory_can_be_asked(shop):
    assert shop.refusal("clock")[:2] == (409, "conflict")


def test_a_clock_of_the_machine_is_not_moved(make_memory):
    memory = make_memory()

    assert memory.get("clock")["manual"] is False
    assert memory.refusal("clock", method="POST", body={"advance": "1 s"})[0] == 409


@pytest.mark.parametrize("wish", ["soon", -1, "1e400 s"])
def test_a_clock_is_moved_by_a_duration(memory, wish):
    status, _, reason = memory.refusal("clock", method="POST", body={"advance": wish})

    assert (status, reason.startswith("advance: ")) == (400, True)


def test_what_the_balance_cannot_explain_is_told(make_api, copy_of_shop):
    assert remove(copy_of_shop, "messages", lambda row: row["offset"] == 6)

    found = make_api(copy_of_shop).get("balance")

    assert found["unexplained"] == 1
    [one] = found["findings"]
    assert (one["what"], one["message_id"]) == ("missing message", "0/0/6")
    assert one["why"].startswith("messages has no row of it, but event ")
