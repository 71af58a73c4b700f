"""What is large, or long, can be read: pictures begin legible, and cards say whole things."""

import pytest
from playwright.sync_api import expect

from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.fixtures.browser import PHONE, Visitor, console_of
from tests.unit.queries.recording import Recording

DESK = {"width": 1280, "height": 900}
LETTERS = (
    "(() => { const place = document.querySelector('[data-dot]');"
    " const box = place.getBoundingClientRect();"
    " const part = place.querySelector('svg').viewBox.baseVal;"
    " return 11.5 / Math.max(part.width / box.width, part.height / box.height); })()"
)
"""How high the letters of a picture are, in pixels."""

LABELS = "[...document.querySelectorAll('.cards td[data-label]')].map(one => one.dataset.label)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The console of sixty exchanges, each with queues of its own, of which some are full."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("readable") / "tables", broker)
    broker.exchange("dlx", "topic")
    broker.queue("grave")
    broker.exchange("idle")  # a probable mistake
    broker.bind("dlx", "grave", "#")
    for number in range(60):
        broker.exchange(f"domain-{number:02}", "topic")
        for part in ("a", "b", "c"):
            name = f"tenant-{number:02}-{part}"
            broker.queue(name, dead_letter_exchange="dlx", max_length=1)
            broker.bind(f"domain-{number:02}", name, f"{part}.#")
            broker.publish("", name, "{}")
    for _ in range(3):
        broker.publish("", "tenant-00-a", "{}")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    with console_of(recording.root) as place:
        yield place


@pytest.fixture
def visit(browser, site, cookies):
    """Opens a page as a visitor."""
    visitors = []

    def enter(address, **options):
        visitor = Visitor(browser, site[0], **options)
        visitors.append(visitor)
        visitor.page.context.add_cookies(cookies)
        visitor.open(address)
        return visitor.page

    yield enter
    for visitor in visitors:
        visitor.close()
    assert [visitor.problems for visitor in visitors] == [[] for _ in visitors]


def test_on_a_phone_a_hundred_queues_are_a_line_each_with_the_rest_on_demand(visit):
    page = visit("/queues", viewport=PHONE)
    rows = page.locator("table.cards tbody tr")
    expect(rows).to_have_count(100)
    heights = "[...document.querySelectorAll('tbody tr')].map(one => one.offsetHeight)"
    assert sorted(page.evaluate(heights))[50] <= 60
    full = rows.filter(has_text="tenant-00-a")
    expect(full).to_contain_text("100 % full")
    expect(full.locator("td[data-label=Consumers]")).to_be_hidden()

    button = page.get_by_role("button", name="Details of tenant-00-a")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(full.locator("td[data-label=Consumers]")).to_be_visible()
    expect(button).to_be_focused()
    page.evaluate("document.body.dispatchEvent(new CustomEvent('batch'))")
    expect(page.locator("#content.htmx-request")).to_have_count(0)
    expect(full.locator("td[data-label=Consumers]")).to_be_visible()
    page.keyboard.press("Enter")
    expect(full.locator("td[data-label=Consumers]")).to_be_hidden()

    page.set_viewport_size(DESK)
    expect(page.locator(".unfold")).to_have_count(0)
    expect(page.locator("tbody tr").first.locator("td").nth(9)).to_be_visible()


@pytest.mark.parametrize("locale", ["en", "de"])
def test_on_a_phone_folded_queues_are_accessible(browser, site, cookies, locale):
    visitor = Visitor(browser, site[0], viewport=PHONE, locale=locale)
    visitor.page.context.add_cookies(cookies)
    visitor.open("/queues")
    expect(visitor.page.locator("tr.folded")).to_have_count(100)
    visitor.can_be_used_by_everybody()
    visitor.page.locator(".unfold button").first.click()
    assert visitor.violations() == []
    visitor.close()


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("around", ["", "&around=tenant-31"])
def test_a_large_picture_begins_with_a_part_that_can_be_read(visit, viewport, around):
    page = visit(f"/topology?stretch=24h{around}", viewport=viewport)
    expect(page.locator("[data-dot] svg")).to_be_visible()

    assert page.evaluate(LETTERS) >= 5.5
    if around:
        box = page.locator("[data-dot]").bounding_box()
        node = page.locator("[data-dot] .node", has_text="tenant-31-a").bounding_box()
        assert box["x"] <= node["x"] <= box["x"] + box["width"]
        assert box["y"] <= node["y"] <= box["y"] + box["height"]
    small = page.evaluate(LETTERS)
    page.get_by_role("button", name="Fit").click()
    assert page.evaluate(LETTERS) <= small


def test_a_picture_of_few_parts_is_not_blown_up(visit):
    page = visit("/definitions", viewport=DESK)
    page.get_by_label("Definitions (JSON)").fill('{"queues": [{"name": "late", "vhost": "/"}]}')
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("[data-dot] svg")).to_be_visible()

    assert page.evaluate(LETTERS) <= 17


@pytest.mark.parametrize("which", [0, -1])
def test_what_the_tab_key_reaches_in_a_large_picture_is_seen(visit, which):
    page = visit("/topology?stretch=24h", viewport=PHONE)
    expect(page.locator("[data-dot] svg")).to_be_visible()

    page.locator("[data-dot] .node a").nth(which).focus()

    box = page.locator("[data-dot]").bounding_box()
    node = page.locator("[data-dot] .node:focus-within").bounding_box()
    assert box["x"] <= node["x"] + node["width"] / 2 <= box["x"] + box["width"]
    assert box["y"] <= node["y"] + node["height"] / 2 <= box["y"] + box["height"]


def test_a_number_on_a_card_that_is_a_link_stands_under_its_name(visit):
    page = visit("/queues?show=dead", viewport=PHONE)
    cell = page.locator(".cards td.n", has=page.locator("a")).first

    edges = cell.evaluate(
        "one => { const words = document.createRange();"
        " words.selectNodeContents(one.querySelector('a'));"
        " return [one.getBoundingClientRect().left, words.getBoundingClientRect().left]; }"
    )

    assert edges[0] == pytest.approx(edges[1], abs=1)


def test_the_name_of_a_value_on_a_card_has_the_blanks_of_its_column(visit):
    page = visit("/balance", viewport=PHONE)
    expect(page.locator("table.cards").last).to_be_visible()

    assert "From deaths and redrives" in page.evaluate(LABELS)


def test_a_command_in_a_concern_stays_in_its_sentence(visit):
    page = visit("/", viewport=PHONE)

    found = page.locator(".verdict li > a").evaluate_all(
        "links => links.map(one => getComputedStyle(one).display)"
    )
    assert found
    assert set(found) == {"inline-block"}


@pytest.mark.parametrize("address", ["/definitions", "/topology/changes?compared_with=2020-01-01"])
def test_a_sentence_in_a_table_is_no_column_of_single_words_on_a_phone(visit, address):
    page = visit(address, viewport=PHONE)
    expect(page.locator("td.prose").first).to_be_visible()

    widths = page.locator("td.prose").evaluate_all(
        "found => found.filter(one => one.offsetParent).map(one => one.clientWidth)"
    )

    assert min(widths) >= 170
