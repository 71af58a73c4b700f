"""Users of other vhosts, and questions that mean no good: refused, bounded, in words."""

import asyncio
import os
from urllib.parse import quote

import pytest

from streaming.child_processes.pool import MOST, OF_USER
from streaming.management.bodies import MAX_BODY_BYTES
from tests.dlx_api import DlxApi
from tests.management_on_log import OnLog
from tests.unit.console.two_vhosts import TREASURE, write_two_vhosts

ANNA = ("anna", "secret")
MINE, OTHER = "%2F", "vault-v"
PLAN = {"queue": "closed"}
INJECTIONS = (
    *("' OR 1=1 --", "') OR ('a'='a", '" OR 1=1 --', "'; DROP TABLE events; --", "\\'", "x\x00'"),
    *("' UNION ALL BY NAME FROM read_text('/etc/passwd') --", "%27%20OR%201=1", "$(id)", "{{7*7}}"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_two_vhosts(tmp_path_factory.mktemp("vhosts") / "tables")


@pytest.fixture(scope="module")
def served(root, tmp_path_factory):
    """The API of a front that serves `/`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        found = DlxApi(OnLog().front, root)
        yield found
        found.close()


@pytest.fixture
def api(served):
    """The same, where anna may read `open` and what begins so, and has the tag management."""
    served.readers.budget_s = 60.0
    user = {"password": "secret", "tags": "management"}
    assert served.ask("PUT", "users/anna", user).status_code in {201, 204}
    access = {"configure": "^$", "write": "", "read": "^open"}
    assert served.ask("PUT", f"permissions/{MINE}/anna", access).status_code in {201, 204}
    return served


def every_path(vhost, queue):
    """Every question about a vhost, with a body where one is needed."""
    redrive = f"redrives/{vhost}/r-123456789012"
    return [
        ("GET", f"dead-letters/{vhost}", None),
        ("GET", f"queues/{vhost}", None),
        ("GET", f"queues/{vhost}/{queue}/contents", None),
        ("GET", f"queues/{vhost}/{queue}/changes?from=0", None),
        ("GET", f"topology/{vhost}", None),
        ("GET", f"topology/{vhost}/diff?from=0", None),
        ("POST", f"topology/{vhost}/diff", {}),
        ("GET", f"redrives/{vhost}", None),
        ("POST", f"redrives/{vhost}", PLAN),
        ("GET", redrive, None),
        ("GET", f"{redrive}/plan", None),
        ("POST", f"{redrive}/approve", {"reason": "x"}),
        ("POST", f"{redrive}/control", {"action": "cancel", "reason": "x"}),
        ("PUT", f"deployments/{vhost}/payer", {"version": "1"}),
    ]


def test_a_user_sees_nothing_of_another_vhost(api):
    for method, path, body in every_path(OTHER, "vault-q"):
        response = api.ask(method, f"dlx/{path}", body, ANNA)
        assert response.status_code in {401, 404}, (method, path, response.text)
        assert TREASURE not in response.text

    seen = [
        api.ask("GET", f"dlx/{path}", user=ANNA).text
        for path in (
            *("dead-letters?bodies=true", "dead-letter-groups?by=vhost,queue", "queues", "balance"),
            *("redrives", "messages/vault-m", "dead-letters?header=vault-h"),
            f"dead-letters?id={quote('500/0/0')}&bodies=true",
        )
    ]
    assert not [text for text in seen if OTHER in text or TREASURE in text]
    assert api.get("queues", user=ANNA)["item_count"] == 4


def test_a_user_reads_only_what_the_queues_permit(api):
    letters = api.get("dead-letters", user=ANNA, bodies="true")
    assert {one["queue"] for one in letters["items"]} == {"open"}
    assert api.refusal(f"queues/{MINE}/closed/contents", ANNA)[:2] == (401, "not_authorised")
    assert api.refusal(f"queues/{MINE}/closed-dead/changes", ANNA, **{"from": "0"})[0] == 401
    assert api.refusal("messages/closed-m", ANNA)[0] in {401, 404}
    assert api.get(f"queues/{MINE}/open-dead/contents", user=ANNA, bodies="true")["item_count"] == 1


def test_what_the_front_permits_now_counts_whatever_the_tables_say(api):
    path = f"permissions/{MINE}/anna"
    closed = {"configure": "^$", "write": "", "read": "^closed"}
    assert api.ask("PUT", path, closed).status_code == 204
    letters = api.get("dead-letters", user=ANNA)["items"]
    assert {one["queue"] for one in letters} == {"closed"}

    assert api.ask("DELETE", path).status_code == 204
    assert api.get("dead-letters", user=ANNA)["items"] == []
    assert api.refusal(f"dead-letters/{MINE}", ANNA)[0] == 401
    assert api.get("queues", user=ANNA)["items"] == []


def test_a_user_of_the_api_without_a_tag_or_a_password_gets_nothing(api):
    assert api.ask("PUT", "users/eve", {"password": "eve", "tags": ""}).status_code == 201
    for user in (("eve", "eve"), ("anna", "wrong")):
        for path in ("dead-letters", "balance", "messages/mine", "clock"):
            assert api.refusal(path, user)[0] == 401
    assert api.ask("GET", "dlx/dead-letters", user=None).status_code == 401


def test_to_act_needs_the_tag_policymaker(api):
    for method, path, body in every_path(MINE, "open"):
        if method == "POST" and not path.startswith("topology"):
            assert api.refusal(path, ANNA, method, body)[0] == 401, path
    assert api.refusal("clock", ANNA, "POST", {"advance": 1})[0] == 401

    policymaker = {"password": "secret", "tags": "policymaker"}
    assert api.ask("PUT", "users/anna", policymaker).status_code == 204
    assert api.post(f"redrives/{MINE}", {"queue": "open"}, ANNA)["letters"] == 1
    assert api.refusal(f"redrives/{MINE}", ANNA, "POST", PLAN)[0] == 409
    assert api.refusal(f"redrives/{OTHER}", ANNA, "POST", PLAN)[0] in {401, 404}
    assert api.refusal("clock", ANNA, "POST", {"advance": 1})[0] == 401


def test_an_approval_needs_the_permissions_of_a_get_and_a_publish(api):
    policymaker = {"password": "secret", "tags": "policymaker"}
    assert api.ask("PUT", "users/anna", policymaker).status_code == 204
    plan = api.post(f"redrives/{MINE}", {"queue": "open"})
    path = f"redrives/{MINE}/{plan['id']}/approve"

    # anna may read open-dead, and not publish to the default exchange
    assert api.refusal(path, ANNA, "POST", {"reason": "x"})[:2] == (401, "not_authorised")


@pytest.mark.parametrize(
    "query",
    [
        *("page=1000000000", "page=0", "page=-1", "page=1.5", "page=\u0661", "page=" + "9" * 100),
        *("page_size=501", "page_size=1000000000", "page_size=x"),
        *("as_of=never", "as_of=99999999999999999999", "as_of=" + "1" * 5_000),
        *("since=x", "until=9999999999999", "id=x", "header=%3D1", "bodies=perhaps"),
        *("where=1%3D1", "sql=SELECT", "vhost=vault-v", "queue=" + "a" * 5_000),
    ],
)
def test_parameters_are_bounded_and_known(api, query):
    response = api.ask("GET", f"dlx/dead-letters?{query}")

    assert response.status_code == 400
    assert response.json()["reason"]
    api.checked("GET", "dead-letters", response)


@pytest.mark.parametrize("name", ["queue", "routing_key", "cause", "cause_header", "header"])
def test_parameters_are_values_and_no_sql(api, name):
    for text in INJECTIONS:
        response = api.ask("GET", "dlx/dead-letters", user=ANNA, params={name: text})
        assert response.status_code in {200, 400}, (text, response.text)
        found = response.json().get("items", [])
        assert {one["queue"] for one in found} <= ({"open"} if name == "cause_header" else set())


def test_a_header_in_a_group_is_a_name_and_no_sql(api):
    for text in INJECTIONS:
        query = {"by": f"header:{text}"}
        response = api.ask("GET", "dlx/dead-letter-groups", user=ANNA, params=query)
        assert response.status_code in {200, 400}, (text, response.text)
        assert "root:" not in response.text


@pytest.mark.parametrize(
    "path",
    [
        "dlx",
        "dlx/",
        "dlx/%2e%2e/users",
        "dlx/openapi.json/x",
        "dlx/dead-letters/%00",
        "dlx/dead-letters/%ff",
        "dlx/queues/%2F/..%2F..%2Fetc%2Fpasswd/contents",
        "dlx/queues/%2F/%ff/contents",
        "dlx/redrives/%2F/..%2F..%2Fr-123456789012/plan",
        "dlx/redrives/%2F/r-12345678901z/plan",
        "dlx/messages/..%2F..%2Fetc%2Fpasswd",
    ],
)
def test_paths_that_lead_nowhere(api, path):
    response = api.ask("GET", path)

    assert response.status_code in {400, 404}, response.text
    assert "root:" not in response.text


def test_large_bodies_are_refused(api):
    wish = {"reason": "x" * 100_000}
    assert api.refusal(f"redrives/{MINE}", method="POST", body=wish)[0] == 400
    status, _, reason = api.refusal(
        f"topology/{MINE}/diff", method="POST", body={"x": "y" * MAX_BODY_BYTES}
    )
    assert (status, str(MAX_BODY_BYTES) in reason) == (400, True)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"nul", b"[]", b"5"])
def test_bodies_that_make_no_sense_are_refused(api, body):
    for path in (f"redrives/{MINE}", f"topology/{MINE}/diff"):
        response = api.run(api.sent("POST", f"dlx/{path}", content=body))
        if path.startswith("redrives"):
            assert response.status_code == 400, response.text
        else:
            assert response.status_code == 400 or response.json()["problems"], response.text
        assert response.status_code != 500


def test_an_answer_that_takes_too_long_ends_its_process_and_no_other(api):
    api.get("queues")
    pid = api.readers.children.pids()[-1]
    api.readers.budget_s = 0.0

    assert api.refusal("queues")[:2] == (503, "takes_too_long")
    api.readers.budget_s = 60.0
    assert api.get("queues")["item_count"] == 6
    assert pid not in api.readers.children.pids()


def test_a_process_that_is_killed_is_replaced(api):
    api.get("queues")
    [pid] = api.readers.children.pids()
    os.kill(pid, 9)

    assert api.refusal("queues")[0] == 503
    assert api.get("queues")["item_count"] == 6


def test_the_questions_of_a_user_wait_for_each_other_and_too_many_are_refused(api):
    async def many():
        return await asyncio.gather(*(api.sent("GET", "dlx/queues") for _ in range(OF_USER + 3)))

    found = [one.status_code for one in api.run(many())]

    assert sorted(found) == [200] * OF_USER + [429] * 3
    assert len(api.readers.children.pids()) == 1  # one question of a user at a time
    assert len(api.readers.children.pids()) <= MOST
