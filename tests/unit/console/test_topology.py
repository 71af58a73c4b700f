"""The page of the topology: traffic beside what is declared."""

import html
import re

import pytest

from streaming.broker import commands
from tests.builders import Broker
from tests.unit.queries.recording import Recording, apart
from topology.declarations import Binding


@pytest.fixture(scope="module")
def page(make_client, tmp_path_factory):
    """The page after publishes that reach queues directly, over an exchange, and otherwise."""
    broker = Broker()
    broker.exchange("spare", "fanout")
    broker.exchange("orders", "topic", arguments={"alternate-exchange": "spare"})
    broker.exchange("work", "topic")
    for queue, exchange in (("audit", "orders"), ("billing", "work"), ("unrouted", "spare")):
        broker.queue(queue)
        broker.bind(exchange, queue, "order.#")
    broker.bind("orders", "work", "order.#", destination_type="exchange")
    broker.queue("leftover")
    broker.bind("orders", "leftover", "old.#")
    recording = Recording(tmp_path_factory.mktemp("topology") / "tables", broker)
    for key in ("order.a", "order.b", "other", "old.a"):
        broker.publish("orders", key, "m")
    broker.do(commands.Unbind(binding=Binding("orders", "leftover", routing_key="old.#")))
    recording.commit()
    recording.close()
    return make_client(recording.root).get("/topology?as_of=0&stretch=7d").text


def ways(text):
    table = text.partition("Ways into the queues")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(<td>.*?)</tr>", table)
    return {tuple(re.sub("<[^>]+>", " ", row).split()) for row in rows}


def test_traffic_is_counted_at_the_last_exchange_before_a_queue(page):
    found = ways(page)

    assert ("orders", "audit", "2", "yes") in found
    assert ("work", "billing", "2", "yes") in found
    assert ("spare", "unrouted", "1", "yes") in found


def test_traffic_over_a_binding_that_is_gone_is_marked(page):
    assert ("orders", "leftover", "1", "not", "now") in ways(page)


def test_without_a_vhost_the_page_is_about_the_one_in_which_most_died(make_client, tmp_path):
    quiet, loud = Broker(), apart(Broker(vhost="shop"), 500)
    recording = Recording(tmp_path, quiet, loud)
    for broker, count in ((quiet, 1), (loud, 2)):
        broker.queue("box", max_length=1)
        for _ in range(1 + count):
            broker.publish("", "box", "m")
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    page = client.get("/topology?as_of=0").text

    assert "<h1>Topology of shop</h1>" in page
    assert "<h1>Topology of /</h1>" in client.get("/topology?as_of=0&vhost=%2F").text
    [link] = re.findall(r'<td class="n"><a href="(/search\?[^"]*)">2</a>', page)
    letters = re.sub("<[^>]+>", "", client.get(html.unescape(link)).text)
    assert "2 dead letters" in letters


@pytest.fixture(scope="module")
def changed(make_client, tmp_path_factory):
    """A console of two queues, of which the second came a second later, with a policy for both."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("changed") / "tables", broker)
    broker.exchange("orders", "topic")
    broker.queue("first")
    broker.bind("orders", "first", "a.#")
    recording.commit()
    broker.at(1_000)
    broker.queue("second")
    broker.bind("orders", "second", "b.#")
    broker.do(commands.Deployed(service="worker", version="2"))
    broker.at(2_000)
    broker.policy("limit", "^first$", {"max-length": 3})
    broker.do(commands.Unbind(binding=Binding("orders", "first", routing_key="a.#")))
    recording.commit()
    recording.close()
    return make_client(recording.root)


def differences(text):
    table = text.partition('aria-label="Differences"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(<td.*?)</tr>", table)
    return [re.sub("<[^>]+>", " ", row).split()[:2] for row in rows]


def test_two_instants_are_compared_as_a_list_and_as_pictures(changed):
    text = changed.get("/topology/changes?compared_with=0").text

    assert differences(text) == [
        ["added", "policy"],
        ["added", "queue"],
        ["added", "binding"],
        ["removed", "binding"],
    ]
    before, after = [html.unescape(one) for one in re.findall(r'data-dot="([^"]*)"', text)]
    assert 'class="gone"' in before
    assert 'class="queue changed"' in before
    assert 'class="queue new"' in after
    assert "worker 2" in text


def test_each_step_and_each_entry_of_the_audit_leads_to_its_own_before_and_after(changed):
    steps = changed.get("/topology/changes?compared_with=0").text
    audit = changed.get("/audit").text

    for text, count in ((steps, 4), (audit, 7)):
        links = [
            html.unescape(one)
            for one in re.findall(r'href="(/topology/changes[^"]*)">[Bb]ef', text)
        ]
        assert len(links) == count
        for link in links:
            page = changed.get(link)
            assert page.status_code == 200, link
            assert differences(page.text), link
    assert differences(changed.get("/topology/changes?as_of=0&compared_with=0").text) == []


def test_an_instant_before_all_is_compared_with_nothing_and_nonsense_is_refused(changed):
    text = changed.get("/topology/changes?compared_with=2020-09-13T12:00:00Z&as_of=0").text

    assert differences(text) == [["added", "exchange"], ["added", "queue"], ["added", "binding"]]
    assert changed.get("/topology/changes?compared_with=soon").status_code == 400
