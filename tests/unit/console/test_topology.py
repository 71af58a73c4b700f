"""The page of the topology: traffic beside what is declared."""

import re

import pytest

from streaming.broker import commands
from tests.builders import Broker
from tests.unit.queries.recording import Recording
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
