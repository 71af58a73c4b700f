"""A plan of a user has what the user may read, and says what it leaves out."""

import html
import re
import time

import msgspec
import pytest

from streaming.broker import commands
from streaming.console.forms import job
from streaming.contents.updater import ContentsUpdater
from streaming.protocol.sealed_plan import read_plan
from tests.builders import START_MS, Broker
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


def rejected(root, count, now_ms=0):
    """A broker whose queue `dead` has letters that were rejected in `work`, and their tables."""
    broker = Broker()
    broker.at(now_ms)
    recording = Recording(root, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for _ in range(count):
        broker.publish("", "work", "order")
    broker.get("work", "work", count, channel="c")
    broker.do(commands.Reject(refs=tuple(f"work/{one}" for one in range(count)), channel="c"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    return broker, recording


def test_a_plan_without_letters_says_that_there_were_deaths(make_client, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    broker, recording = rejected(tmp_path / "tables", 2)
    client = make_client(recording.root)
    waiting = client.get("/redrive/plan?queue=work").text
    assert "<strong>2</strong> letters" in waiting
    assert "why-none" not in waiting
    sealed = client.post("/redrive/seal?queue=work", headers=ORIGIN).text
    assert re.search('id="unconsumed">Letters will wait: nobody consumed <a [^>]*>work<', sealed)

    broker.do(commands.Purge(queue="dead"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    purged = make_client(recording.root).get("/redrive/plan?queue=work").text

    assert "<strong>0</strong> letters" in purged
    assert "<strong>2 deaths match, but there is nothing to redrive.</strong>" in purged
    [gone] = re.findall(r'href="([^"]+)">2 are in no queue any more', purged)
    again = make_client(recording.root).get(html.unescape(gone)).text
    assert "<strong>2</strong> letters" in again


@pytest.fixture
def retried(tmp_path, make_client, monkeypatch):
    """The letter 0/0/0 died in `work`, then in `retry`, and waits in `parked`; 0/0/1 was acked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="retry")
    ttl = {"message_ttl": 100, "dead_letter_exchange": "", "dead_letter_routing_key": "parked"}
    broker.queue("retry", **ttl)
    broker.queue("parked")
    broker.queue("full", max_length=1)
    for name in ("work", "work", "full", "full"):
        broker.publish("", name, "order")
    first, second = broker.get("work", "g", 2)
    broker.reject(first.ref)
    broker.ack(second.ref)
    broker.at(1_000)
    recording.commit()
    yield recording, make_client(recording.root)
    recording.close()


def of_message(client, number):
    page = client.get(f"/message?id=0/0/{number}").text
    return page, [html.unescape(one) for one in re.findall(r'href="(/redrive/plan[^"]*)"', page)]


def test_a_message_goes_back_to_where_it_first_died_by_default(retried):
    _recording, client = retried
    message, [plan] = of_message(client, 0)
    page = client.get(plan).text

    assert "Redrive it to work…" in message
    assert "It goes to the queue where it first died." in page
    assert re.search("<td>parked</td><td>work</td>", page)
    assert "--to-first" in page
    [last] = re.findall(r'<a href="([^"]+)">where it died last</a>', page)
    elsewhere = client.get(html.unescape(last)).text
    assert re.search("<td>parked</td><td>retry</td>", elsewhere)
    assert "It goes to the queue where it died." in elsewhere
    assert client.post(plan.replace("/plan", "/seal"), headers=ORIGIN).status_code == 200


def test_a_message_that_cannot_be_redriven_offers_no_redrive(retried):
    recording, client = retried
    acked, plans_of_acked = of_message(client, 1)
    dropped, [publish] = of_message(client, 2)

    assert plans_of_acked == []
    assert "no-redrive" not in acked, "it never died"
    assert "Publish it again from the tables…" in dropped
    assert "<strong>1</strong> letter" in client.get(publish).text

    recording.brokers[0].ack(recording.brokers[0].get("parked", "p")[0].ref)
    recording.commit()
    done, plans_of_done = of_message(client, 0)
    assert plans_of_done == []
    assert "Nothing of it can be redriven now." in done


def test_a_purged_letter_can_be_published_again(retried):
    recording, client = retried
    recording.brokers[0].do(commands.Purge(queue="parked"))
    recording.commit()

    page, [publish] = of_message(client, 0)
    assert "It was purged from parked." in page
    assert "<strong>1</strong> letter" in client.get(publish).text


def test_causes_and_search_offer_a_redrive_only_where_letters_wait(retried):
    recording, client = retried

    def offered(queue):
        page = client.get(f"/causes?by=queue&queue={queue}").text
        [cell] = re.findall(r'<td class="act nowrap">(.*?)</td>', page)
        [search] = re.findall(
            r'<p id="count".*?</p>', client.get(f"/search?queue={queue}").text, re.DOTALL
        )
        return re.sub("<[^>]+>", "", cell), search

    cell, search = offered("work")
    assert (cell, "Redrive…" in search) == ("Redrive…", True)
    cell, search = offered("retry")
    assert (cell, "Redrive…" in search) == ("Redrive…", True)
    cell, search = offered("full")
    assert (cell, "Publish again…" in search, "Redrive…" in search) == (
        "Publish again…",
        True,
        False,
    )

    recording.brokers[0].ack(recording.brokers[0].get("parked", "p")[0].ref)
    recording.commit()
    cell, search = offered("work")
    assert (cell, "Redrive…" in search) == ("none waits", False)
    assert "so there is nothing to redrive" in search


@pytest.fixture
def tenants(tmp_path, make_client):
    """The letter of tenant a waits; of b one was acked, and a consumer holds another one."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for tenant in ("b", "b", "a"):
        broker.publish("", "work", "order", headers={"tenant": tenant})
    broker.at(60_000)
    broker.reject(*(one.ref for one in broker.get("work", "w", 3, channel="w")), channel="w")
    done, _held = broker.get("dead", "d", 2, channel="d")
    broker.ack(done.ref, channel="d")
    recording.commit()
    yield make_client(recording.root)
    recording.close()


@pytest.mark.parametrize(
    ("asked", "letters"),
    [
        ("header=tenant=a", 1),
        ("header=tenant=b", 0),
        ("header=tenant=c", 0),
        ("until=2020-09-13T12:26:50Z", 0),
        ("routing_key=work", 1),
        ("id=0/0/0", 0),
        ("id=0/0/1", 0),
        ("id=0/0/2", 1),
        ("where=routing_key%3D'other'", 0),
    ],
)
def test_a_redrive_is_offered_if_a_plan_of_what_is_seen_has_letters(tenants, asked, letters):
    search = re.search(r'<p id="count".*?</p>', tenants.get(f"/search?{asked}").text, re.DOTALL)
    plan = tenants.get(f"/redrive/plan?{asked}").text
    cells = re.findall(
        r'<td class="act nowrap">(.*?)</td>', tenants.get(f"/causes?by=queue&{asked}").text
    )

    assert search is not None
    assert f"<strong>{letters}</strong> letter" in plan
    assert ("Redrive…" in search[0]) is bool(letters)
    assert any("Redrive…" in cell for cell in cells) is bool(letters)


def test_the_first_page_offers_a_plan_only_of_what_waits(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    now_ms = int(time.time() * 1000) - START_MS
    broker.at(now_ms - 60_000)
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "retry"}
    broker.queue("work", **dead)
    broker.queue("retry", message_ttl=1_000, **{**dead, "dead_letter_routing_key": "work"})
    broker.publish("", "work", "order")
    broker.reject(*(one.ref for one in broker.get("work", "first")))

    def offered():
        recording.commit()
        page = make_client(recording.root).get("/").text
        rows = page.partition('id="died"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
        cells = [row.rpartition("<td>")[2] for row in rows.split("</tr>")[:-1]]
        return [re.sub("<[^>]+>", "", cell).strip() for cell in cells]

    assert offered() == ["Redrive…"]
    broker.at(now_ms - 50_000)  # back in `work`, where it first died: a message again
    broker.drain("work")
    assert offered() == ["none waits", "none waits"]
    recording.close()


def test_a_plan_of_a_part_says_how_many_more_wait_and_leads_to_them(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    now_ms = int(time.time() * 1000) - START_MS
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for ago_ms in (90 * 60_000, 60_000):
        broker.at(now_ms - ago_ms)
        broker.publish("", "work", "order")
        broker.reject(*(one.ref for one in broker.get("work", f"g{ago_ms}")))
    recording.commit()
    recording.close()
    client = make_client(recording.root)
    page = client.get("/").text
    [offered] = {html.unescape(one) for one in re.findall(r'href="(/redrive/plan[^"]+)"', page)}

    plan = client.get(offered).text

    [part] = re.findall(r'<p class="warn" id="part">.*?</p>', plan)
    assert words(part).startswith("1 of the 2 that wait: only those that died since 20")
    [whole] = re.findall(r'href="([^"]+)"', part)
    page = client.get(html.unescape(whole)).text
    assert "<strong>2</strong> letters" in page
    assert 'id="part"' not in page
    narrow = client.get("/redrive/plan?queue=work&since=2020-01-01&until=2020-01-02").text
    assert "0 of the 2 that wait: only those of this search." in words(narrow)
    assert 'id="part"' not in client.get("/redrive/plan?id=1/0/0").text


def test_a_group_that_no_filter_chooses_alone_offers_no_plan_of_more_than_it(tenants):
    def offered(by):
        page = tenants.get(f"/causes?{by}").text
        cells = re.findall(r'<td class="act nowrap">(.*?)</td>', page)
        return [re.sub("<[^>]+>", "", cell) for cell in cells]

    assert offered("by=queue") == ["Redrive…"]
    assert sorted(offered("by_header=tenant")) == ["Redrive…", "none waits"]
    assert offered("by=exchange") == ["choose by queue"]
    assert offered("by=outcome") == ["choose by queue"]


def test_a_plan_of_nothing_leads_nowhere_in_a_circle(retried):
    _recording, client = retried
    plan = client.post("/redrive/seal?id=0/0/0", headers=ORIGIN)
    assert plan.status_code == 200
    gone = client.get("/redrive/plan?id=0/0/0&gone=yes").text

    assert "None of these letters is gone" in gone
    [back] = re.findall(r'href="([^"]+)">1 waits in a queue and can be redriven', gone)
    assert "<strong>1</strong> letter" in client.get(html.unescape(back)).text
    never = client.get("/redrive/plan?id=0/0/1").text
    assert "why-none" not in never, "it never died"


@pytest.fixture
def many(tmp_path, make_client, monkeypatch):
    """A console of 101 dead letters, and the id of a sealed plan that sends them back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    _broker, recording = rejected(tmp_path / "tables", 101)
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


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_plan_that_nobody_approved_is_listed_until_it_is_thrown_away(many, state_home):
    client, redrive_id = many
    listed = client.get("/redrives").text

    assert f'<a href="/redrive?vhost=%2F&amp;id={redrive_id}">{redrive_id}</a>' in listed
    assert "redrive 101 / queue = work Throw away" in words(listed)
    assert redrive_id not in client.get("/redrives?as_of=0").text, "a plan is about now"

    assert 'id="forget"' in client.get(f"/redrive?id={redrive_id}").text
    answer = client.post(f"/redrive/forget?id={redrive_id}", headers=ORIGIN)

    assert answer.url.path == "/redrives"
    assert redrive_id not in answer.text
    assert client.get(f"/redrive?id={redrive_id}").status_code == 404
    assert not list(state_home.rglob(f"{redrive_id}*"))
    assert client.post(f"/redrive/forget?id={redrive_id}", headers=ORIGIN).status_code == 404


def test_plans_of_other_tables_and_files_that_are_none_are_not_listed(many, state_home):
    client, redrive_id = many
    [file] = state_home.rglob(f"{redrive_id}.json")
    plan = read_plan(file.read_bytes(), file.name)
    other = msgspec.structs.replace(plan, tables_id="of another job").sealed()
    file.with_name(f"{other.id}.json").write_bytes(other.to_json())
    file.with_name("r-000000000000.json").write_bytes(b"{")

    listed = client.get("/redrives")

    assert listed.status_code == 200
    assert redrive_id in listed.text
    assert other.id not in listed.text
    assert "r-000000000000" not in listed.text


def test_a_plan_of_another_vhost_is_neither_listed_nor_thrown_away(anna, state_home):
    sealed = anna.post("/redrive/seal", headers=ORIGIN).url.params["id"]
    [file] = state_home.rglob(f"{sealed}.json")
    plan = read_plan(file.read_bytes(), file.name)
    other = msgspec.structs.replace(plan, vhost="secret").sealed()
    place = file.with_name(f"{other.id}.json")
    place.write_bytes(other.to_json())

    listed = anna.get("/redrives").text
    refused = anna.post(f"/redrive/forget?id={other.id}", headers=ORIGIN)

    assert (sealed in listed, other.id in listed) == (True, False)
    assert (refused.status_code, place.exists()) == (404, True)


def test_a_plan_to_discard_says_that_letters_are_removed(many):
    client, _ = many
    page = words(client.get("/redrive/plan?queue=work&action=discard").text)

    assert "Discard dead letters The letters: queue = work" in page
    assert "no queue: it is removed 101 removed; bodies stay in the tables" in page
    assert "arrives" not in page
    assert "Seal the plan to discard 101 letters" in page
    assert "Header x-death" not in page, "it sends nothing"


def test_a_plan_says_who_consumes_and_asks_for_a_name_where_one_is_needed(many):
    client, _ = many

    plain = words(client.get("/redrive/plan?queue=work").text)
    unnamed = client.get("/redrive/plan?queue=work&to=exchange").text

    assert "101 will wait: nobody consumes from the target" in plain
    assert "Nobody consumed work at the last batch" in plain
    assert "Routing key" not in plain, "a field without effect"
    assert 'id="unnamed"' in unnamed
    assert 'name="key"' in unnamed
    assert 'id="unnamed"' not in client.get("/redrive/plan?queue=work&to=queue&name=dead").text


def test_what_a_full_queue_dropped_can_be_planned_from_the_first_page(
    make_client, tmp_path, state_home
):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("lot", max_length=1)
    for number in range(3):
        broker.publish("", "lot", f"order {number}")
    broker.at(1_000)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    first = client.get("/?as_of=0").text
    [link] = re.findall(r'href="(/redrive/plan\?[^"]*)"', first)
    address = html.unescape(link).replace("as_of=0&", "")
    plan = words(client.get(address).text)

    assert "gone=yes" in address
    assert "lot maxlen no queue lot 2" in plan
    assert "2 go into a queue that is full" in plan
    without = words(client.get(address.replace("gone=yes", "gone=")).text)
    assert "None of these letters waits in a queue." in without


def shown_by(page):
    [shown] = re.findall(r'name="shown" value="([0-9a-f]{64})"', page)
    return shown


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"reason": "<mended>", "count": "10"}, "has 101 letters: type 101 to approve it"),
        ({"reason": "", "count": "101"}, "Give a reason"),
        ({"reason": "<mended>", "count": "101", "shown": "0" * 64}, "Meanwhile other letters"),
    ],
)
def test_what_cannot_be_sent_back_at_once_is_shown_again_as_it_was_filled_in(
    many, state_home, form, fault
):
    client, _ = many
    kept = set(state_home.rglob("r-*.json"))
    page = client.get("/redrive/plan?queue=work").text
    assert "Redrive 101 letters now" in words(page)

    form = {"shown": shown_by(page), **form}
    answer = client.post("/redrive/send?queue=work", headers=ORIGIN, data=form)

    assert answer.status_code in {400, 409}
    assert fault in html.unescape(answer.text)
    assert f'name="reason" value="{html.escape(form["reason"])}"' in answer.text
    assert f'name="count" value="{form["count"]}"' in answer.text
    assert shown_by(answer.text) == shown_by(page)
    assert set(state_home.rglob("r-*.json")) == kept, "no plan was made"


def test_what_a_condition_of_the_user_chose_is_shown_again_too(many):
    client, _ = many
    address = "queue=work&where=1+%3D+1"
    form = {"shown": shown_by(client.get(f"/redrive/plan?{address}").text), "reason": ""}

    answers = [
        client.post(f"/redrive/send?{one}", headers=ORIGIN, data=form)
        for one in (address, "where=nonsense")
    ]

    assert [one.status_code for one in answers] == [400, 400]
    assert "Give a reason" in answers[0].text
    assert shown_by(answers[0].text) == form["shown"]
    assert "nonsense" in answers[1].text


def test_what_kafka_did_not_take_at_once_is_kept_as_a_plan(many, monkeypatch):
    client, _ = many
    monkeypatch.setattr(job, "TIMEOUT_S", 1.0)
    page = client.get("/redrive/plan?queue=work").text
    form = {"shown": shown_by(page), "reason": "it is mended", "count": "101"}

    answer = client.post("/redrive/send?queue=work", headers=ORIGIN, data=form)

    assert answer.status_code == 503
    assert "Kafka has not answered within 1 s" in answer.text
    assert 'id="approve"' in answer.text
    [redrive_id] = re.findall(r"<h1>Redrive (r-[0-9a-f]{12})</h1>", answer.text)
    assert "nothing has moved" in client.get(f"/redrive?id={redrive_id}").text


def test_a_console_without_a_job_offers_only_what_it_can_do(anna):
    page = anna.get("/redrive/plan").text

    assert 'id="no-job"' in page
    assert 'id="send"' not in page
    assert 'id="seal"' in page
    assert "dlx redrives approve ID --reason why" in page

    sealed = anna.post("/redrive/seal", headers=ORIGIN)

    redrive_id = sealed.url.params["id"]
    assert 'id="approve"' not in sealed.text
    assert 'id="no-job"' in sealed.text
    assert f"<code>dlx redrives approve {redrive_id} --reason why" in sealed.text
    assert 'id="forget"' in sealed.text


def test_the_page_where_a_plan_is_approved_has_the_warnings_of_the_plan(
    make_client, tmp_path, state_home
):
    broker, recording = rejected(tmp_path / "tables", 2)
    broker.publish("", "work", "a later order")
    broker.get("work", "later", 1, channel="c")
    broker.do(commands.Ack(refs=("later/0",), channel="c"))
    recording.commit()
    recording.close()
    client = make_client(recording.root)
    warning = "2 come out of order"
    assert warning in client.get("/redrive/plan?queue=work").text

    sealed = client.post("/redrive/seal?queue=work", headers=ORIGIN)

    assert warning in sealed.text
    assert list(state_home.rglob("*.forecast"))
    client.post(f"/redrive/forget?id={sealed.url.params['id']}", headers=ORIGIN)
    assert not list(state_home.rglob("*.forecast"))


def test_who_consumes_is_said_as_of_the_last_batch_if_that_is_old(
    make_client, tmp_path, state_home
):
    _broker, recording = rejected(tmp_path / "tables", 1)  # of a fixed day, long ago
    recording.close()
    client = make_client(recording.root)

    plan = words(client.get("/redrive/plan?queue=work").text)
    sealed = words(client.post("/redrive/seal?queue=work", headers=ORIGIN).text)

    assert re.search(r"Nobody consumed work at the last batch, [^.]+ ago\.", plan)
    assert "Nobody consumes work now" not in plan
    assert re.search(r"nobody consumed work at the last batch, [^.]+ ago\.", sealed)

    _broker, recording = rejected(tmp_path / "fresh", 1, int(time.time() * 1000) - START_MS)
    recording.close()
    plan = words(make_client(recording.root).get("/redrive/plan?queue=work").text)
    assert "Nobody consumes work now." in plan


def test_other_choices_are_folded_until_one_is_made(many):
    client, _ = many

    assert '<details id="options">' in client.get("/redrive/plan?queue=work").text
    assert '<details id="options" open>' in client.get("/redrive/plan?queue=work&to=queue").text


@pytest.fixture
def suspect(tmp_path, make_client, state_home):
    """`work` rejects after a release that is still the latest; `lone` has no place for letters."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.queue("lone")
    broker.publish("", "work", "before")
    broker.ack(*(one.ref for one in broker.get("work", "a", 1)))
    broker.at(60_000)
    broker.do(commands.Deployed(service="worker", version="2.1", queues=("work",)), user="ci")
    broker.at(120_000)
    for queue in ("work", "lone"):
        broker.publish("", queue, "order")
        broker.reject(*(one.ref for one in broker.get(queue, queue, 1)))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def test_a_plan_and_its_sealed_page_warn_of_the_release_that_still_stands(suspect):
    plan = suspect.get("/redrive/plan?queue=work").text
    sealed = suspect.post("/redrive/seal?queue=work", headers=ORIGIN).text

    for page in (plan, sealed):
        [box] = re.findall(r'<div class="verdict warn" id="risks".*?</div>', page, re.DOTALL)
        assert "deployed worker 2.1 is still the latest change of work , 60 s before" in words(box)
        assert "a second death" not in words(box)
    german = suspect.get("/redrive/plan?queue=work", headers={"accept-language": "de"}).text
    assert "ist noch immer die letzte Änderung von" in words(german)


def test_a_plan_of_what_is_gone_is_named_so_and_warns_that_a_death_is_final(suspect):
    page = suspect.get("/redrive/plan?queue=lone&gone=yes").text

    assert "<h1>Publish dead letters again</h1>" in page
    assert "1 letter to publish again" in words(page)
    assert "No dead-letter exchange takes what dies in lone again" in words(page)


def test_where_both_ways_are_offered_their_difference_is_said_once(suspect):
    for address in ("/?as_of=2020-09-13 12:30", "/causes", "/redrive/plan?queue=work"):
        page = words(suspect.get(address).text)
        is_live = "as_of" not in address
        assert page.count("Redrive moves letters that wait in a queue") == is_live, address
