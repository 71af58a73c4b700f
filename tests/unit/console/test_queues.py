"""The list of queues as people read it, and what a queue says of its letters."""

import html
import json
import re

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from tests.builders import START_MS, Broker
from tests.fixtures.waiting import wait_until
from tests.unit.console.test_messages import words
from tests.unit.queries.recording import Recording


@pytest.fixture(scope="module")
def client(make_client, tmp_path_factory):
    """Queues of every kind, at one instant."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("queues") / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.queue("delay", message_ttl=60_000)
    broker.queue("forgotten")
    broker.queue("full", max_length=10, overflow="reject-publish")
    broker.queue("ring", max_length=2)
    broker.queue("<b>hostile</b>")
    broker.consume("full", "tag", channel="slow")
    for queue, count in (("forgotten", 3), ("full", 9), ("ring", 4), ("delay", 1), ("work", 5)):
        for number in range(count):
            broker.publish("", queue, f"{queue} {number}")
    given = broker.get("work", "g", 4, channel="c")
    broker.reject(*(one.ref for one in given), channel="c")
    broker.at(59_000)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def listed(client, query=""):
    """The names of the queues on the page, in order."""
    page = client.get(f"/queues?as_of=0&{query}").text
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    return [
        html.unescape(one) for one in re.findall(r'<td><a href="/queue\?[^"]*">(.*?)</a>', body)
    ]


def row(client, name, query=""):
    """The words of a queue's row."""
    page = client.get(f"/queues?as_of=0&name={name}&{query}").text
    return words(page[page.index("<tbody>") : page.index("</tbody>")])


def test_marks_are_on_what_needs_a_look_alone(client):
    assert listed(client, "show=unserved") == ["forgotten"]
    assert listed(client, "show=nearly_full") == []
    assert listed(client, "show=dead") == ["work"]
    assert "no consumer" in row(client, "forgotten")
    assert "No queues of those with “at or near the limit”." in words(
        client.get("/queues?as_of=0&show=nearly_full").text
    )
    for name in ("delay", "dead", "full", "ring"):
        assert "no consumer" not in row(client, name), name


def test_a_queue_near_its_limit_says_how_full_it_is(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("full", max_length=10, overflow="reject-publish")
    broker.queue("bytes", max_length_bytes=100, dead_letter_exchange="")
    broker.queue("ring", max_length=10)
    for queue in ("full", "ring"):
        for number in range(9):
            broker.publish("", queue, f"{number}")
    broker.publish("", "bytes", "b" * 95, size=95)
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    assert listed(client, "show=nearly_full") == ["bytes", "full"]
    now = words(client.get("/?as_of=0").text)
    assert "2 queues are full, or nearly, such as" in now
    quiet = make_client(recording.root, quiet=("by*", "full"))
    assert listed(quiet, "show=nearly_full") == []
    assert "or nearly, such as" not in words(quiet.get("/?as_of=0").text)
    quiet_of = {"DlxNearMaxLength": ("full",), "DlxNoConsumer": ("bytes",)}
    other = make_client(recording.root, quiet_of=quiet_of)
    assert listed(other, "show=nearly_full") == ["bytes"]
    assert listed(other, "show=unserved") == ["full", "ring"]
    alone = words(other.get("/?as_of=0").text)
    assert "bytes is full, or nearly" in alone
    assert "2 queues have messages and no consumer, such as" in alone
    assert "90 % full" in row(client, "full")
    assert "95 % full" in row(client, "bytes")
    assert "full" not in row(client, "ring")


@pytest.fixture
def parked(make_client, tmp_path):
    """A bounded parking lot that fills with dead letters and orders: below, at and past its limit.

    Nobody consumes from it. A ring of orders that nobody ever took is as full.
    """
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="parking")
    broker.queue("parking", max_length=10)
    broker.queue("ring", max_length=10)
    for _step in range(3):
        for number in range(4):
            broker.publish("", "work", f"{number}")
            broker.publish("", "ring", f"{number}")
        given = broker.get("work", f"g{_step}", 4, channel="c")
        broker.reject(*(one.ref for one in given), channel="c")
        broker.publish("", "parking", "by hand")
        broker.at((_step + 1) * 1_000)
        recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return make_client(recording.root)


def listed_then(client, batch, show):
    page = client.get(f"/queues?as_of={batch}&show={show}").text
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    return re.findall(r'<td><a href="/queue\?[^"]*">(.*?)</a>', body)


def test_a_full_queue_that_drops_dead_letters_is_worse_than_one_without_a_consumer(parked):
    assert [listed_then(parked, batch, "unserved") for batch in range(3)] == [
        ["parking", "ring"],
        ["parking", "ring"],
        ["parking"],
    ], "a warning does not vanish as things get worse; a ring at rest needs none"
    assert [listed_then(parked, batch, "nearly_full") for batch in range(3)] == [
        [],
        ["parking"],
        ["parking"],
    ]
    assert [listed_then(parked, batch, "dropping") for batch in range(3)] == [[], [], ["parking"]]

    now = parked.get("/?as_of=2").text
    assert "parking is full of dead letters and drops its oldest: 5 in the last hour" in now
    assert 'class="verdict bad"' in now
    assert "parking is full, or nearly" not in now
    assert "parking is full, or nearly" in parked.get("/?as_of=1").text
    page = parked.get("/queue?queue=parking&vhost=/&as_of=2").text
    assert "full: 5 dropped" in words(page)
    assert "drops its oldest: 5 messages in the last hour" in words(page)
    assert "dropped" not in words(parked.get("/queue?queue=ring&vhost=/&as_of=2").text)


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("messages_ready", "dead"),
        ("messages_unacknowledged", "full"),
        ("in", "full"),
        ("out", "work"),
        ("consumers", "full"),
        ("dead", "work"),
        ("oldest", "dead"),
        ("name", "<b>hostile</b>"),
    ],
)
def test_every_column_sorts_both_ways(client, sort, first):
    found = listed(client, f"sort={sort}")
    turned = listed(client, f"sort={sort}&order={'desc' if sort == 'name' else 'asc'}")

    assert found[0] == first or sort == "oldest"
    assert len(found) == len(turned) == 7
    assert turned != found


def test_the_list_says_rates_depth_age_consumers_and_letters(client):
    found = row(client, "work")

    assert re.search(r"work / 1 0 1 0.08/s 0.07/s 59 s 0 4 ", found)
    assert 'aria-label="0, ' in client.get("/queues?as_of=0&name=work").text


def test_a_page_that_is_old_says_so(client):
    assert "The last batch was" in words(client.get("/queues").text)
    assert "The last batch was" in words(client.get("/queue?queue=work").text)
    assert "The last batch was" not in words(client.get("/queues?as_of=0").text)
    page = client.get("/queue?queue=work").text
    [drawn] = re.findall(r"data-curve='([^']*)'", page)
    assert json.loads(html.unescape(drawn))["at_s"][-1] == START_MS / 1000 + 59
    assert "Oldest 59 s" not in words(page)  # nor is an age that of then


def test_a_queue_says_what_died_in_it_and_where_it_waits(client):
    page = words(client.get("/queue?queue=work&as_of=0").text)

    assert re.search(r"wait elsewhere Wait in Reason Letters Oldest Next dead rejected 4 ", page)


def test_a_dead_letter_queue_says_why_each_is_there_and_leads_to_a_plan(client):
    answer = client.get("/queue?queue=dead&as_of=0").text
    page = words(answer)

    assert re.search(r"wait here Died in Reason Letters Oldest Next work rejected 4 ", page)
    assert page.count("rejected in work") == 5  # of each copy, and what leads to a plan of all
    [link] = re.findall(
        r'href="([^"]*)">Redrive the dead letters of the 4 messages on this page', answer
    )
    plan = words(client.get(html.unescape(link).replace("as_of=0&", "")).text)
    assert "4 letters to redrive" in plan
    [link] = re.findall(r'href="([^"]*)"[^>]*>Redrive all rejected in work…', answer)
    plan = words(client.get(html.unescape(link).replace("as_of=0&", "")).text)
    assert "4 letters to redrive" in plan


def test_the_curve_is_marked_by_what_changed_and_who_did_it(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    broker.queue("other")
    broker.publish("", "work", "order")
    broker.at(1000)
    broker.exchange("orders", "topic")
    broker.bind("orders", "work", "a.#")
    broker.bind("orders", "other", "a.#")
    broker.policy("limit", "^work$", {"max-length": 10})
    broker.policy("elsewhere", "^other$", {"max-length": 10})
    for queue in ("work", "other"):
        broker.do(
            commands.Deployed(
                service=f"{queue}er", version="2.4.1", queues=(queue,), reason="faster"
            ),
            user="ci",
        )
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    text = client.get("/queue?queue=work&stretch=all").text

    page = words(text)
    assert page.count("bound work to orders") == 1
    assert "policy set limit" in page
    assert re.search(r"deployed worker 2.4.1 by ci ?: faster", page)
    assert "elsewhere" not in page
    assert "otherer" not in page
    found = {html.unescape(one) for one in re.findall(r'"([^"]*)">worker 2.4.1<', text)}
    [link] = [one for one in found if "action" not in one]
    [release] = found - {link}
    assert "policy set" not in words(client.get(release).text)
    audit = words(client.get(link).text)
    assert audit.index("worker 2.4.1") < audit.index("policy set limit")
    assert "otherer" in words(client.get("/audit").text)
    deployments = words(client.get("/audit?action=deployments").text)
    assert "otherer 2.4.1" in deployments
    assert "policy set" not in deployments


def test_a_purge_is_marked_with_who_did_it_and_what_left_is_shown_from_where_history_begins(
    make_client, tmp_path
):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    broker.queue("other")
    for queue in ("work", "work", "other"):
        broker.publish("", queue, "order")
    broker.at(1000)
    for queue in ("work", "other"):
        broker.do(commands.Purge(queue=queue), user="ci")
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    text = client.get("/queue?queue=work&stretch=all").text

    assert "purged 2 messages by ci" in words(text)
    assert "1 messages" not in words(text)
    before_history = client.get("/changes?queue=work&vhost=/&from=2020-01-01T00:00:00Z")
    assert before_history.status_code == 200
    assert words(before_history.text).count("purged") >= 2


def test_a_viewer_sees_no_letter_of_a_closed_queue(make_client_of_anna, two_vhosts):
    client = make_client_of_anna(two_vhosts)

    page = words(client.get("/queue?queue=closed-dead&vhost=/").text)

    assert "You have no read permission" in page
    assert "Redrive the" not in page
    assert "closed rejected 1" in page
    assert "vault" not in client.get("/queues").text


@pytest.mark.parametrize("shown", ["unserved", "nearly_full", "dead", "filled", "moving"])
def test_a_list_of_no_queues_says_which_it_would_have(shop_console, shown):
    page = shop_console.get(f"/queues?show={shown}&name=nowhere").text

    assert "No queues of those with “" in page
    assert "that have “nowhere” in their name" in page


def test_the_audit_of_a_queue_says_who_purged_it_and_its_page_leads_there(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for queue, user in (("work", "ci"), ("other", "anna")):
        broker.queue(queue)
        broker.publish("", queue, "order")
        broker.do(commands.Purge(queue=queue), user=user)
    broker.at(1_000)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    address = "/audit?vhost=%2F&queue=work&action=purges"
    link = f'href="{address.replace("&", "&amp;")}"'
    assert link in client.get("/queue?queue=work&stretch=all").text
    wait_until(lambda: link in client.get("/balance").text)  # it is drawn meanwhile
    rows = re.findall(r"<tr><td>.*?</tr>", client.get(address).text, re.DOTALL)
    assert [("ci" in row, "anna" in row) for row in rows] == [(True, False)]
    declared = words(client.get("/audit?queue=other").text)
    assert "queue declared" in declared
    assert "type classic · durable true" in declared
    assert "ci purged" not in declared


def test_a_queue_whose_name_begins_with_a_blank_has_a_page(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue(" work", dead_letter_exchange="", dead_letter_routing_key="")
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    [address] = re.findall(r'<td><a href="(/queue\?[^"]*)"', client.get("/queues").text)
    page = client.get(html.unescape(address))

    assert page.status_code == 200
    assert "dead_letter_exchange (default)" in words(page.text)
    assert 'dead_letter_routing_key ""' in html.unescape(words(page.text))


def test_a_curve_begins_no_earlier_than_the_tables(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    broker.publish("", "work", "order")
    broker.at(300_000)
    broker.publish("", "work", "order")
    recording.commit()
    recording.close()

    page = make_client(recording.root).get("/queue?queue=work&stretch=6h&as_of=0").text

    drawn = json.loads(html.unescape(re.findall("data-curve='(.*?)'", page)[0]))
    assert 290 < drawn["at_s"][-1] - drawn["at_s"][0] <= 300


def test_a_queue_that_only_delays_needs_no_consumer(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    for queue in ("wait", "work"):
        broker.queue(queue, dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.publish("", "work", "taken")
    broker.get("work", "g", 1, auto_ack=True)
    broker.at(20 * 60_000)
    for queue in ("wait", "work"):
        broker.publish("", queue, "order")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    client = make_client(recording.root)

    assert listed(client, "show=unserved") == ["work"]
    assert "work has messages and no consumer" in words(client.get("/?as_of=0").text)
