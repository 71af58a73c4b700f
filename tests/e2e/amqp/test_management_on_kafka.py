"""RabbitMQ's management API of a front on a real Kafka: what it changes lasts, and is in tables."""

import re
from contextlib import closing
from typing import Any

import httpx2
import pytest

from tests.bench.processes import Process
from tests.fixtures.waiting import wait_until

ANN = ("ann", "secret")
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
GET_ALL = {"count": 9, "ackmode": "ack_requeue_false", "encoding": "auto"}
_ADDRESS = re.compile(r"management at (http://\S+)")


def api_of(front: Process) -> httpx2.Client:
    """A client of the API of a front, as soon as it is there."""

    def address() -> str | None:
        front.check()
        found = _ADDRESS.search(front.log.read_text() if front.log.exists() else "")
        return None if found is None else found[1]

    wait_until(address, front.log_end)
    return httpx2.Client(base_url=str(address()), auth=ANN, trust_env=False, timeout=60)


def wait_for(api: httpx2.Client, auth: tuple[str, str]) -> None:
    """Wait until the front serves."""
    wait_until(lambda: api.get("overview", auth=auth).status_code == 200)


def done(response: httpx2.Response) -> Any:
    """The document of an answer that is no refusal."""
    assert response.status_code in {200, 201, 204}, response.text
    return response.json() if response.content else None


def message(body: str) -> dict[str, object]:
    return {
        "routing_key": "work",
        "payload": body,
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2},
    }


def publish(api: httpx2.Client, body: str) -> object:
    return done(api.post("exchanges/%2F/amq.default/publish", json=message(body)))


def lasting(document: dict[str, Any]) -> dict[str, Any]:
    """Definitions without the user guest, whose hash is made at each start."""
    users = [user for user in document["users"] if user["name"] != "guest"]
    return {**document, "users": users}


def make(api: httpx2.Client) -> None:
    """Make a user, and as this user a queue with a policy and two messages."""
    guest = ("guest", "guest")
    wait_for(api, guest)
    user = {"password": "secret", "tags": "administrator"}
    done(api.put("users/ann", json=user, auth=guest))
    done(api.put("permissions/%2F/ann", json=EVERYTHING, auth=guest))
    done(api.put("queues/%2F/work", json={"durable": True}))
    policy = {"pattern": "^work", "definition": {"max-length": 100}, "apply-to": "queues"}
    done(api.put("policies/%2F/short", json=policy))
    assert publish(api, "one") == publish(api, "two") == {"routed": True}


@pytest.mark.timeout(900)  # Spark starts, on a machine that may be busy
def test_what_the_api_changes_lasts_and_is_in_the_tables(fronts):
    first = fronts.start("--management", "0")
    with api_of(first) as api:
        make(api)
        exported = done(api.get("definitions"))
    first.stop()

    second = fronts.start("--management", "0")
    with api_of(second) as api:
        wait_for(api, ANN)
        assert lasting(done(api.get("definitions"))) == lasting(exported)
        queue = done(api.get("queues/%2F/work"))
        assert (queue["policy"], queue["messages_ready"]) == ("short", 2)
        (got, _again) = done(api.post("queues/%2F/work/get", json=GET_ALL))
        assert got["payload"] == "one"
        done(api.delete("queues/%2F/work"))
        done(api.delete("policies/%2F/short"))
        done(api.post("definitions", json=exported))
        assert done(api.get("definitions")) == exported
        fronts.connect(second)
        listed = done(api.get("connections"))
        assert [one["user"] for one in listed] == ["guest"]

    job = fronts.start_job()

    def changes() -> list[tuple[str, str, str]]:
        job.check()
        with closing(fronts.tables()) as tables:
            if not tables.has("events"):
                return []
            tables.view("events")
            found: list[tuple[str, str, str]] = tables.values(
                "SELECT detail ->> '$.what', coalesce(\"user\", ''), coalesce(channel, '') "
                "FROM events WHERE kind = 'topology' ORDER BY seq"
            )
            return found

    wait_until(lambda: len(changes()) >= 9, job.log_end, 600.0, 1.0)
    job.stop()
    found = [(what, user, channel.rpartition(" ")[0]) for what, user, channel in changes()]
    assert found[:4] == [
        ("parameter_set", "", "management guest"),
        ("permissions_set", "", "management guest"),
        ("queue_declared", "ann", "management"),
        ("policy_set", "", "management ann"),
    ]
    hashes = [user["password_hash"] for user in exported["users"]]
    with closing(fronts.tables()) as tables:
        tables.view("events")
        details = tables.values("SELECT detail FROM events WHERE kind = 'topology'")
    assert not any(each in text for each in hashes for (text,) in details)


def test_a_standby_answers_in_words_until_it_leads(fronts):
    leader = fronts.start("--management", "0")
    with api_of(leader) as api:
        make(api)
    standby = fronts.start("--standby", "--management", "0")
    with api_of(standby) as api:
        refused = api.get("queues")
        assert refused.status_code == 503
        assert refused.json()["error"] == "not_serving"
        wait_until(lambda: "vhost '/' is led by" in api.get("queues").json()["reason"])

        leader.kill()

        wait_for(api, ANN)
        queue = done(api.get("queues/%2F/work"))
        assert queue["messages_ready"] == 2
        assert publish(api, "three") == {"routed": True}
