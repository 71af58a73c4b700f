"""A plan of a user has what the user may read, and says what it leaves out."""

import html
import re

import pytest

from streaming.broker import commands
from streaming.console.forms import job
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.recording import Recording

ORIGIN = {"origin": "http://127.0.0.1:9420"}


@pytest.fixture
def anna(tmp_path, make_client_of_anna, monkeypatch):
    """She may read `work*`; of the dead letters of `work-b` another queue has got one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for name, dead in (("work-a", "work-dead"), ("work-b", "graveyard")):
        broker.queue(name, dead_letter_exchange="", dead_letter_routing_key=dead)
        broker.queue(dead)
    broker.do(commands.SetPermissions(user="anna", configure="", write=".*", read="^work"))
    for name in ("work-a", "work-b"):
        broker.publish("", name, f"order of {name}")
        broker.get(name, name, 1, channel=f"{name}-c")
        broker.do(commands.Reject(refs=(f"{name}/0",), channel=f"{name}-c"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client_of_anna(recording.root, "operator")


def test_the_default_plan_has_what_the_user_may_read(anna):
    page = anna.get("/redrive/plan").text

    assert re.search("<strong>1</strong> letter to redrive; 1 more is in queues that you may", page)
    assert "graveyard" not in page
    sealed = anna.post("/redrive/seal", headers=ORIGIN)
    assert (sealed.status_code, "graveyard" in sealed.text) == (200, False)


def test_a_plan_of_nothing_that_the_user_may_read_is_empty(anna):
    page = anna.get("/redrive/plan?queue=work-b").text

    assert "<strong>0</strong> letters" in page
    assert anna.post("/redrive/seal?queue=work-b", headers=ORIGIN).status_code == 409


def test_a_plan_without_letters_says_that_there_were_deaths(make_client, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for _ in range(2):
        broker.publish("", "work", "order")
    broker.get("work", "work", 2, channel="c")
    broker.do(commands.Reject(refs=("work/0", "work/1"), channel="c"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    client = make_client(recording.root)
    waiting = client.get("/redrive/plan?queue=work").text
    assert "<strong>2</strong> letters" in waiting
    assert "why-none" not in waiting
    sealed = client.post("/redrive/seal?queue=work", headers=ORIGIN).text
    assert re.search('id="unconsumed">Letters will wait: nobody consumes <a [^>]*>work<', sealed)

    broker.do(commands.Purge(queue="dead"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    purged = make_client(recording.root).get("/redrive/plan?queue=work").text

    assert "<strong>0</strong> letters" in purged
    assert re.search("<strong>2</strong> deaths match, but no such letter rests in a queue", purged)


@pytest.fixture
def many(tmp_path, make_client, monkeypatch):
    """A console of 101 dead letters, and the id of a sealed plan that sends them back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for _ in range(101):
        broker.publish("", "work", "order")
    broker.get("work", "work", 101, channel="c")
    broker.do(commands.Reject(refs=tuple(f"work/{one}" for one in range(101)), channel="c"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    config = tmp_path / "dlx.toml"
    config.write_text('[kafka]\nbootstrap_servers = "127.0.0.1:9"\n')
    client = make_client(recording.root, config=config)
    sealed = client.post("/redrive/seal?queue=work", headers=ORIGIN)
    return client, sealed.url.params["id"]


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"reason": "<mended>", "count": "10"}, "has 101 letters: type 101 to approve it"),
        ({"reason": " ", "count": "101"}, "Give a reason"),
        ({"reason": "<mended>", "count": "101", "rate": "fast"}, "expected a whole number"),
    ],
)
def test_a_form_that_cannot_be_approved_is_shown_again_as_it_was_filled_in(many, form, fault):
    client, redrive_id = many
    assert "Type 101 to confirm" in client.get(f"/redrive?id={redrive_id}").text

    answer = client.post(f"/redrive/approve?id={redrive_id}", headers=ORIGIN, data=form)

    shown = html.unescape(answer.text)
    assert answer.status_code == 400
    assert fault in shown
    assert "<h1>Redrive r-" in shown
    for name, value in form.items():
        assert f'name="{name}" value="{html.escape(value)}"' in answer.text


def test_a_plan_that_kafka_did_not_take_is_still_there(many, monkeypatch):
    client, redrive_id = many
    monkeypatch.setattr(job, "TIMEOUT_S", 1.0)
    form = {"reason": "it is mended", "count": "101", "canary": "5"}

    answer = client.post(f"/redrive/approve?id={redrive_id}", headers=ORIGIN, data=form)

    assert answer.status_code == 503
    assert "Kafka has not answered within 1 s. Ask again once it runs." in answer.text
    assert "The plan is kept" in answer.text
    assert 'name="canary" value="5"' in answer.text
    assert "nothing has moved" in client.get(f"/redrive?id={redrive_id}").text
