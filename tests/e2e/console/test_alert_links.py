"""The links of alerts of a real Prometheus lead to what they are about, as it was then."""

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import expect

from streaming.contents.updater import ContentsUpdater
from streaming.metrics.alerts import RULES
from tests.builders import Broker
from tests.fixtures.browser import Visitor, console_of
from tests.fixtures.prometheus import Prometheus
from tests.fixtures.waiting import join, wait_until
from tests.unit.queries.recording import Recording

QUEUE = "rechnungen größe & eu"
METRICS = f"""
dlx_console_info{{url="%s"}} 1
dlx_unconsumed_messages{{vhost="shop/eu",queue="{QUEUE}"}} 3
dlx_kafka_reachable 0
dlx_unexplained 1
"""


@contextmanager
def exposed(text):
    """An address of metrics."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_arguments):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    join(thread)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A console in whose tables three messages wait, and nobody consumes."""
    broker = Broker(vhost="shop/eu")
    recording = Recording(tmp_path_factory.mktemp("console") / "tables", broker)
    broker.queue(QUEUE)
    for number in range(3):
        broker.publish("", QUEUE, f"order {number}")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    with console_of(recording.root) as place:
        yield place


@pytest.fixture(scope="module")
def links(site, tmp_path_factory):
    """The link into the console of each alert, by name."""
    rules = re.sub(r"(?m)^ +for: .*\n", "", RULES.read_text())  # they fire at once
    with exposed(METRICS % site[0]) as address:
        server = Prometheus(tmp_path_factory.mktemp("prometheus"), address, rules=rules)
        try:
            wanted = {"DlxNoConsumer", "DlxKafkaUnreachable", "DlxUnexplained"}
            wait_until(lambda: wanted <= server.firing().keys())
            yield server.annotations("console")
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("alert", "path", "heading"),
    [
        ("DlxNoConsumer", "/queue", QUEUE),
        ("DlxKafkaUnreachable", "/", "Then"),
        ("DlxUnexplained", "/balance", "Balance"),
    ],
)
def test_a_link_opens_the_page_at_the_instant(browser, cookies, links, alert, path, heading, site):
    visitor = Visitor(browser, site[0])
    visitor.page.context.add_cookies(cookies)

    visitor.open(links[alert])

    assert links[alert].startswith(f"{site[0]}{path}?")
    expect(visitor.page.locator("h1")).to_contain_text(heading)
    expect(visitor.page.locator("#shown-at")).to_contain_text("How things were at")
    expect(visitor.page.get_by_role("link", name="Live", exact=True)).to_be_visible()
    if alert == "DlxNoConsumer":
        expect(visitor.page.locator("h1 .mark")).to_have_text("no consumer")
    visitor.close()
    assert visitor.problems == []
