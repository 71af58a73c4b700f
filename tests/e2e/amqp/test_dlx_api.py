"""`/api/dlx` of a front beside a running job: a letter is found, explained and sent back."""

import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streaming.dlx_api.openapi import document
from streaming.embedded.object_store_server import SECRET_KEY
from tests.e2e.amqp.test_management_on_kafka import api_of, done, wait_for
from tests.fixtures.object_store import object_store, shared_place
from tests.fixtures.settings import in_storage
from tests.fixtures.waiting import wait_until

__all__ = ["object_store", "shared_place"]

GUEST = ("guest", "guest")
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.mark.timeout(900)  # Spark starts, on a machine that may be busy
def test_a_letter_is_found_explained_and_sent_back(fronts):
    front = fronts.start("--management", "0")
    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)
        assert done(api.get("dlx/openapi.json")) == document()
        early = api.get("dlx/dead-letters")
        assert (early.status_code, early.json()["error"]) == (409, "no_tables")
        done(api.put("queues/%2F/work", json={"durable": True, "arguments": DEAD}))
        done(api.put("queues/%2F/dead", json={"durable": True}))
        with closing(fronts.connect(front)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "work", b"order 17")
            method, _, _ = channel.basic_get("work")
            channel.basic_reject(method.delivery_tag, requeue=False)
        fronts.start_job()

        def letters() -> Any:
            found = api.get("dlx/dead-letters", params={"queue": "work", "bodies": "true"})
            return found.status_code == 200 and found.json()["items"]

        wait_until(letters, front.log_end, 600.0, 1.0)
        [letter] = letters()
        assert (letter["reason"], letter["body"]) == ("rejected", "order 17")
        assert letter["targets"] == ["dead"]
        name = letter["message_id"].replace("/", "%2F")
        story = done(api.get(f"dlx/messages/{name}"))
        assert [one["queue"] for one in story["copies"]] == ["work", "dead"]
        assert done(api.get("dlx/balance"))["unexplained"] == 0
        lines = Path("docs/management.md").read_text("utf-8").splitlines()
        asked = [shlex.split(line)[-1] for line in lines if "/api/dlx/" in line and "curl" in line]
        [listing, one] = [each.removeprefix("http://localhost:15672/api/") for each in asked]
        done(api.get(listing))
        assert done(api.get(one.replace("1%2F0%2F42", name))) == story

        plan = done(api.post("dlx/redrives/%2F", json={"queue": "work"}))
        path = f"dlx/redrives/%2F/{plan['id']}"
        assert (plan["letters"], plan["groups"][0]["goes_to"]) == (1, "work")
        approved = done(api.post(f"{path}/approve", json={"reason": "mended"}))
        assert (approved["total"], approved["moved"]) == (1, 1)
        again = done(api.post(f"{path}/approve", json={"reason": "mended"}))
        assert again == approved
        wait_until(lambda: done(api.get("queues/%2F/work"))["messages_ready"] == 1)

        wait_until(lambda: api.get(path).status_code == 200, front.log_end, 600.0, 1.0)
        told = done(api.get(path))
        fates = [one["fate"] for one in told["letters"]["items"]]
        assert (told["redrive"]["reason"], fates) == ("mended", ["waiting"])
    front.stop()


def test_a_front_looks_for_tables_in_shared_storage_with_a_secret(
    fronts, shared_place, monkeypatch
):
    monkeypatch.setenv("S3_SECRET", SECRET_KEY)
    secret = {"AWS_SECRET_ACCESS_KEY": "S3_SECRET"}
    fronts.use(in_storage(fronts.config, shared_place, ["s3"], secret))
    front = fronts.start("--management", "0")

    with api_of(front) as api:
        api.auth = GUEST
        wait_for(api, GUEST)
        found = api.get("dlx/dead-letters")

    assert (found.status_code, found.json()["error"]) == (409, "no_tables")
    assert SECRET_KEY not in front.log.read_text()
