"""The story of the demo, told by a visitor of its console instead of the terminal.

A bad release kills the orders in one currency. The visitor sees it on the curve, finds the cause,
asks what was in the queue before, sends the letters back, and watches until they are acknowledged.

`./dlx docs --record` runs this with DLX_RENEW_DOCS=1: then the pictures of the documentation are
taken from this run, and the film.
"""

import json
import os
import re
import signal
from collections import Counter
from datetime import datetime, timedelta
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from streaming.console.pages.redrives import TYPED_ABOVE
from streaming.demo.order_process import FAILED_INVOICES, INVOICES, POISONED, VHOST
from streaming.queries.duckdb_tables import Tables
from tests.fixtures.browser import Visitor
from tests.fixtures.demo import PATIENCE_S, demo
from tests.fixtures.waiting import wait_until
from tools.docs.film import Film
from tools.docs.recordings import IMAGES

__all__ = ["demo"]

RENEW = os.environ.get("DLX_RENEW_DOCS") == "1"
SECONDS = 30 if RENEW else 5
WAIT_S = 4 * PATIENCE_S if RENEW else PATIENCE_S
SCREEN = {"width": 1180, "height": 760}
STAYS_S = 2
"""How long the test verifies that the demo does not end."""

LAST_WORDS = "and the job keep running; Ctrl-C stops them.\n"


class Story:
    """What the visitor does and sees, with the pictures of it."""

    def __init__(self, visitor, folder):
        self.page = visitor.page
        self.film = Film()
        self.folder = folder

    def picture(self, name, *, dark=False):
        """Take a picture of the page."""
        if dark:
            self.page.emulate_media(color_scheme="dark")
            self.page.reload()
            self.wait_until_drawn()
        self.page.screenshot(path=self.folder / f"console-{name}.png")
        if not dark:
            self.frame()
        self.page.emulate_media(color_scheme="light")

    def frame(self, stays_s=2.0):
        """Add what the visitor sees to the film."""
        self.film.add(self.page.screenshot(), round(stays_s * 1000))

    def wait_until_drawn(self):
        """Wait for the content of the page, and the curve or the graph if it has one."""
        expect(self.page.locator("#computing")).to_have_count(0)
        for place, drawn in (("[data-curve]", "canvas"), ("[data-dot]", "svg")):
            if self.page.locator(place).count():
                expect(self.page.locator(f"{place} {drawn}").first).to_be_visible()

    def open(self, path, **parameters):
        """Open a page, and wait until it is live."""
        self.page.goto(f"{path}?{urlencode(parameters)}")
        self.wait_until_drawn()
        expect(self.page.locator("#live")).to_have_text(re.compile(r"live · batch \d+"))

    def reload_until_kafka_has_answered(self):
        """Load the first page again until it says how many records wait, and which front leads."""
        fronts = self.page.get_by_role("region", name="AMQP fronts")

        def is_known():
            self.page.reload()
            self.wait_until_drawn()
            has_lag = self.figure("Consumer lag").first.inner_text() != "unknown"
            return has_lag and fronts.get_by_text("leads", exact=True).count() == 1

        wait_until(is_known)

    def figure(self, name):
        """A figure of the page, by its name."""
        return self.page.locator(".figure", has=self.page.get_by_text(name, exact=True)).locator(
            "dd"
        )

    def deaths_on_the_curve(self):
        """How many deaths each part of the curve of a queue shows."""
        self.open("/queue", queue=INVOICES, stretch="all")
        curve = json.loads(self.page.locator("[data-curve]").get_attribute("data-curve"))
        [died] = [one["values"] for one in curve["series"] if one["what"] == "died"]
        return died

    def cause(self):
        """Group the deaths by a header; the only group, its deaths, and when the first was."""
        self.open("/causes", queue=INVOICES)
        self.page.get_by_label("or by another header").fill("currency")
        self.page.locator("main form").get_by_role("button", name="Show").click()
        rows = self.page.locator("main tbody tr")
        expect(rows).to_have_count(1)
        first = datetime.fromisoformat(rows.locator("time").first.get_attribute("datetime"))
        return rows.locator("td").first.inner_text(), rows.locator("td.n").first.inner_text(), first

    def in_the_queue_before(self, instant):
        """Ask what was in the queue of failed invoices at an instant, with the keyboard."""
        self.open("/queue", queue=FAILED_INVOICES)
        self.page.keyboard.press("t")
        self.page.keyboard.type(instant.isoformat(timespec="milliseconds"))
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("link", name="Live", exact=True)).to_be_visible()
        return self.figure("Ready").inner_text()

    def send_back(self, count):
        """Search, look at the plan and send; returns the id of the redrive."""
        self.open("/search")
        self.page.get_by_role("textbox", name="Queue", exact=True).fill(INVOICES)
        self.frame(1)
        self.page.get_by_role("button", name="Search").click()
        self.wait_until_drawn()
        expect(self.page.locator("#count")).to_contain_text(f"{count} dead letters")
        self.page.get_by_role("link", name="Redrive…").click()
        expect(self.page.locator("#count")).to_contain_text(f"{count} letters to redrive")
        self.frame()
        self.picture("plan")
        self.page.get_by_label("Why?").fill("release 2.1 rounds to whole yen")
        if count > TYPED_ABOVE:
            self.page.get_by_label(f"Type {count} to confirm").fill(str(count))
        self.frame(1.5)
        self.page.get_by_role("button", name=f"Redrive {count} letters now").click()
        self.page.wait_for_url(re.compile("sent=yes"))
        [redrive_id] = re.findall(r"id=(r-[0-9a-f]{12})", self.page.url)
        return redrive_id


@pytest.mark.long
def test_the_visitor_finds_the_bad_release_and_sends_its_letters_back_once(demo, browser, tmp_path):
    kept = demo.start("--seconds", str(SECONDS), "--keep", "--pause-at", "cause", is_typed_to=True)
    kept.until_it_says("paused before the step cause", WAIT_S)
    [link] = re.findall(r"^console: (http://\S+)$", kept.output(), re.MULTILINE)
    visitor = Visitor(browser, link.partition("/?")[0], viewport=SCREEN, color_scheme="light")
    story = Story(visitor, IMAGES if RENEW else tmp_path)

    visitor.page.goto(link)
    expect(visitor.page.locator("#verdict")).to_be_visible()
    story.reload_until_kafka_has_answered()
    story.picture("now")
    expect(visitor.page.locator("#died")).to_contain_text("deployed invoices-worker")
    by_part = story.deaths_on_the_curve()
    died = sum(by_part)
    marks = visitor.page.locator("main li", has_text="deployed invoices-worker")
    expect(marks).to_have_count(2)
    story.picture("queue")
    story.picture("queue-dark", dark=True)
    currency, counted, first = story.cause()
    story.picture("causes")
    assert died >= 3
    assert (by_part[0], by_part[-1]) == (0, 0), "they begin at one moment and end at another"
    assert (currency, counted) == (POISONED, str(died))
    before = story.in_the_queue_before(first - timedelta(milliseconds=1))
    expect(visitor.page.locator("main")).to_contain_text("No message is ready.")
    story.open("/queue", queue=FAILED_INVOICES)
    now = story.figure("Ready").inner_text()
    assert (before, now) == ("0", str(died))

    if RENEW:  # a short demo may have fewer orders
        visitor.page.goto("/find?q=17")
        story.wait_until_drawn()
        story.frame(3)
    redrive_id = story.send_back(died)
    visitor.page.evaluate("window.neverReloaded = true")
    expect(story.figure("Acked")).to_have_text(str(died))
    expect(story.figure("Waiting")).to_have_text("0")
    assert visitor.page.evaluate("window.neverReloaded"), "the page followed by itself"
    story.picture("redrive")
    visitor.page.locator("main tbody a").first.click()
    expect(visitor.page.locator("main")).to_contain_text("redriven")
    story.picture("message")
    story.open("/balance")
    story.frame(3)
    story.film.write(story.folder / "tour.webp")
    story.open("/topology", vhost=VHOST, stretch="1h")
    story.picture("topology-dark", dark=True)
    visitor.close()

    assert visitor.problems == []
    assert acknowledgements(demo.directory, redrive_id) == Counter({1: died})
    kept.type("\n")
    kept.until_it_says(LAST_WORDS, PATIENCE_S)
    assert f"All {died} were orders in {POISONED}" in kept.output()
    assert "Nothing is left to send back." in kept.output()
    assert "The balance is closed" in kept.output()
    assert kept.stays_for(STAYS_S)
    kept.signal(signal.SIGINT)
    assert kept.wait(PATIENCE_S) == 0
    assert "Traceback" not in kept.output()
    assert demo.left_over() == []


def acknowledgements(directory, redrive_id):
    """How many letters of a redrive were acknowledged how often in the queue where they died."""
    tables = Tables(str(directory / "tables"))
    tables.view("events")
    found = tables.values(
        """
        SELECT count(acks.seq) FROM events AS moved LEFT JOIN events AS acks
        ON acks.message_id = moved.message_id AND acks.kind = 'acked' AND acks.queue = ?
        WHERE moved.kind = 'redriven' AND moved.detail ->> '$.redrive' = ?
        GROUP BY moved.message_id
        """,
        [INVOICES, redrive_id],
    )
    tables.close()
    return Counter(count for (count,) in found)
