"""The page of the topology: traffic beside what is declared."""

import html
import json
import re

import pytest

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.console.addresses import ORIGIN
from tests.unit.queries.recording import Recording, apart
from topology.declarations import Binding, Policy


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
    assert "pattern ^first$ · definition (max-length 3) · priority 0 · apply-to all" in steps
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


def details(text):
    """By kind and name, what the table of differences says of them."""
    table = text.partition('aria-label="Differences"')[2].partition("</table>")[0]
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", table)
    ]
    return {(row[0], row[1], html.unescape(row[2])): html.unescape(row[3]) for row in rows}


def test_what_is_added_removed_or_changed_says_how_it_is_declared(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.exchange("orders", "topic", durable=True)
    broker.queue("mail", max_length=5)
    old = Policy("old", "^m", {"max-length": 3}, apply_to="queues")
    broker.do(commands.SetPolicy(policy=old))
    broker.policy("kept", "^m", {"max-length": 3, "expires": 5_000})
    recording.commit()
    broker.at(1_000)
    limit = Policy("limit", "^first$", {"max-length": 3, "overflow": "drop-head"}, priority=7)
    broker.do(commands.SetPolicy(policy=limit))
    broker.policy("kept", "^m", {"max-length": 4, "message-ttl": 1_000})
    broker.policy("cap", "^m", {"max-length": 9}, operator=True)
    broker.do(commands.ClearPolicy(name="old"))
    broker.do(commands.SetPermissions(user="ann", configure="^a", write="", read=".*"))
    broker.do(commands.SetVhostLimit(limit="max-queues", value=10))
    broker.do(commands.DeleteQueue(queue="mail"))
    broker.queue("mail", max_length=6)
    broker.exchange("spare", "fanout", arguments={"alternate-exchange": "orders"})
    recording.commit()
    recording.close()
    client = make_client(recording.root)

    found = details(client.get("/topology/changes?compared_with=0").text)
    back = details(client.get("/topology/changes?as_of=0&compared_with=0").text)

    assert back == {}
    assert found == {
        ("added", "permission", "ann"): 'configure ^a · write "" · read .*',
        ("removed", "policy", "old"): "pattern ^m · max-length 3 · priority 0 · apply-to queues",
        ("changed", "policy", "kept"): (
            "max-length 3 -> 4; without expires 5000; with message-ttl 1000"
        ),
        ("added", "policy", "limit"): (
            "pattern ^first$ · max-length 3 · overflow drop-head · priority 7 · apply-to all"
        ),
        ("added", "operator policy", "cap"): (
            "pattern ^m · max-length 9 · priority 0 · apply-to all"
        ),
        ("added", "vhost limits", "limits"): "max-queues 10",
        ("changed", "queue", "mail"): "x-max-length 5 -> 6",
        ("added", "exchange", "spare"): "type fanout · durable true · alternate-exchange orders",
    }


def kept(broker, component, name, at_ms, value, *, deleted=False):
    """Keep an object as the management API does."""
    document = {"at_ms": at_ms, "value": value, "is_deleted": deleted}
    text = json.dumps(document)
    broker.do(commands.SetParameter(component=component, name=name, value=text, secret="hash"))  # noqa: S106 - it must not be shown


@pytest.fixture(scope="module")
def users_changed(tmp_path_factory):
    """A user and a global parameter come, another user changes, and one goes."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("users") / "tables", broker)
    for name in ("anna", "erwin"):
        kept(broker, "user", name, 1, {"tags": ["management"]})
    broker.do(commands.SetPermissions(user="anna", configure="", write="", read=".*"))
    recording.commit()
    broker.at(1_000)
    kept(broker, "user", "bob", 2, {"tags": []})
    kept(broker, "user", "anna", 2, {"tags": ["administrator"]})
    kept(broker, "user", "erwin", 2, None, deleted=True)
    kept(broker, "global-parameter", "cluster_name", 2, "shop")
    broker.do(commands.SetPermissions(user="bob", configure="", write="", read=".*"))
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


def test_users_and_global_parameters_are_among_what_changed(make_client, users_changed):
    page = make_client(users_changed).get("/topology/changes?compared_with=0").text

    assert details(page) == {
        ("added", "permission", "bob"): 'configure "" · write "" · read .*',
        ("changed", "user", "anna"): "tags ['management'] -> ['administrator']",
        ("added", "user", "bob"): "",
        ("removed", "user", "erwin"): "tags management",
        ("added", "global parameter", "cluster_name"): "value shop",
    }
    steps = re.sub(r"<[^>]+>", " ", page.partition("Step by step</h2>")[2])
    for step in ("user set", "user deleted", "global parameter set", "permissions set"):
        assert step in steps
    assert "hash" not in page
    assert "at_ms" not in page


@pytest.mark.parametrize("address", ["/topology/changes?compared_with=0", "/audit"])
def test_users_are_shown_to_administrators_only(make_client_of_anna, users_changed, address):
    page = make_client_of_anna(users_changed).get(address).text

    assert "permissions set" in page
    assert "erwin" not in page
    assert "cluster_name" not in page


def test_the_audit_names_what_was_done_to_users(make_client, users_changed):
    page = re.sub(r"<[^>]+>", " ", make_client(users_changed).get("/audit").text)

    assert "user deleted" in page
    assert "parameter set" not in page.replace("global parameter set", "")


def test_a_plan_says_what_it_would_create(page_of_plan):
    document = """{"policies": [{"name": "new", "pattern": "^a", "definition": {"expires": 5},
        "priority": 2}], "queues": [{"name": "later", "arguments": {"x-max-length": 4}}]}"""

    text = page_of_plan(document)

    assert "pattern ^a · expires 5 · priority 2 · apply-to all" in text
    assert "durable true · x-max-length 4" in text


@pytest.fixture
def page_of_plan(changed):
    def post(document):
        data = {"vhost": "/", "document": document}
        return html.unescape(changed.post("/definitions/plan", headers=ORIGIN, data=data).text)

    return post


GERMAN = {"accept-language": "de"}


def test_names_of_bindings_are_said_in_the_language_of_the_page(changed):
    page = changed.get("/topology/changes?compared_with=0", headers=GERMAN).text

    assert "<td>'orders' -> Queue 'first' mit 'a.#'</td>" in html.unescape(page)
    assert '<td lang="en">' not in page.partition("<tbody>")[2].partition("</tbody>")[0]


@pytest.mark.parametrize("headers", [{}, GERMAN])
def test_a_reply_of_rabbitmq_is_quoted(changed, headers):
    document = '{"exchanges": [{"name": "orders", "type": "fanout"}]}'
    data = {"vhost": "/", "document": document}
    page = changed.post("/definitions/plan", headers={**ORIGIN, **headers}, data=data).text

    [said] = re.findall(r'<q lang="en" title="[^"]+">(.*?)</q>', page)
    assert "inequivalent arg 'type' for exchange 'orders'" in html.unescape(said)


@pytest.fixture(scope="module")
def crowded(make_client, tmp_path_factory):
    """A console of three hundred queues at one exchange, whose dead letters meet in one queue."""
    broker = Broker()
    broker.exchange("orders", "topic")
    broker.exchange("dlx", "fanout")
    broker.queue("grave")
    broker.bind("dlx", "grave")
    for number in range(300):
        broker.queue(f"tenant-{number:03}", dead_letter_exchange="dlx")
        broker.bind("orders", f"tenant-{number:03}", f"{number}.#")
    recording = Recording(tmp_path_factory.mktemp("crowded") / "tables", broker)
    recording.commit()
    recording.close()
    return make_client(recording.root)


def test_ways_into_many_queues_come_by_the_page(crowded):
    first = ways(crowded.get("/topology").text)
    last = ways(crowded.get("/topology?page=4").text)

    assert len(first) == 100
    assert {way[1] for way in last} == {"tenant-299"}


def nodes(page):
    [graph] = re.findall(r'data-dot="([^"]*)"', page)
    return sorted(re.findall(r'shape=\w+, .*?label="([^"\\]*)', html.unescape(graph)))


def test_around_one_object_queues_that_are_bound_alike_are_one_node(crowded):
    around_grave = crowded.get("/topology?around=grave").text
    around_one = crowded.get("/topology?around=tenant-007").text

    assert nodes(around_grave) == ["dlx", "grave", "tenant-…"]
    assert "Drawn: 302 of 303 exchanges and queues, those around “grave”." in around_grave
    assert nodes(around_one) == ["dlx", "grave", "orders", "tenant-007", "tenant-…"]


@pytest.mark.parametrize("address", ["/topology", "/topology/changes", "/queues", "/definitions"])
def test_before_anything_is_declared_pages_say_what_declares(make_client, tmp_path, address):
    recording = Recording(tmp_path / "tables", Broker())
    recording.commit()
    recording.close()

    answer = make_client(recording.root).get(address)

    assert answer.status_code == 200
    assert "Nothing is declared yet." in answer.text
    assert "<textarea" not in answer.text, "there is no vhost to plan an import into"


def test_a_picture_of_nothing_says_so(changed):
    page = changed.get("/topology/changes?compared_with=2020-09-13T12:00:00Z&as_of=0").text

    assert '<h2>Before</h2><p class="quiet">Nothing.</p>' in page.replace("\n", "")
    assert page.count("data-dot=") == 1


def test_without_a_batch_for_long_the_traffic_is_that_before_the_last_one(shop_console):
    page = shop_console.get("/topology?stretch=15m").text

    assert "The last batch was" in page
    assert any(int(count) for count in re.findall(r'<td class="n">(\d+)<', page))
