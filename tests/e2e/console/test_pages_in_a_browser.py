"""Every page of the console in a real browser: no problem is reported, and everybody can use it."""

import re
from socket import gethostname

import pytest
from playwright.sync_api import expect

from streaming.broker import commands
from streaming.console import server
from streaming.console.app import PAGES
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.fixtures.browser import CLIPPED, PHONE, Visitor, console_of
from tests.fixtures.waiting import wait_until
from tests.unit.queries.recording import Recording
from tests.unit.queries.shop import a_shop

PARAMETERS = {
    "/queue": "queue=billing&stretch=all",
    "/changes": "queue=billing&from=0&to=1",
    "/find": "q=order",
    "/message": "id=0/0/0",
    "/compare": "id=0/0/0&with=0/0/2",
}
"""What a page needs."""

CLIPPED_TABLES = CLIPPED.replace("'.scroll'", "'.scroll:has(> table)'")

CUT = (
    "[...document.querySelectorAll('.cards td')].filter(one => one.scrollWidth > one.clientWidth"
    " + 1).map(one => one.outerHTML)"
)
"""The cells of cards that are wider than there is room."""

NO_PAGES = {"/search/export", "/sql/export", "/message/body", "/message/scenario", "/redrive"}
"""Files, and what needs a plan: `test_redrives_in_a_browser`."""

ADDRESSES = [
    f"{one.path}?{PARAMETERS.get(one.path, '')}"
    for one in PAGES
    if not one.is_action and one.path not in NO_PAGES
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The tables of the shop, which a test may write to."""
    recording = a_shop(tmp_path_factory.mktemp("console") / "tables")
    ContentsUpdater(recording.place).update()
    yield recording
    recording.close()


@pytest.fixture(scope="module")
def site(shop):
    """The address of the console, and the cookies of someone who has opened the link."""
    with console_of(shop.root) as place:
        yield place


@pytest.fixture
def visit(browser, site, cookies):
    """Opens the console as a visitor, and fails if the browser has reported a problem."""
    visitors = []

    def enter(address="/", **options):
        visitor = Visitor(browser, site[0], **options)
        visitors.append(visitor)
        visitor.page.context.add_cookies(cookies)
        visitor.open(address)
        return visitor

    yield enter
    for visitor in visitors:
        visitor.close()
    assert [visitor.problems for visitor in visitors] == [[] for _ in visitors]


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_is_accessible_in_the_light_in_the_dark_and_on_a_phone(visit, address):
    visitor = visit(address, color_scheme="light", viewport={"width": 1280, "height": 900})

    visitor.can_be_used_by_everybody()


@pytest.mark.parametrize(
    "address", ["/", "/queue?queue=billing", "/search", "/audit", "/queues", "/causes"]
)
def test_a_german_browser_gets_german_pages_that_fit_and_are_accessible(visit, address):
    visitor = visit(address, locale="de-DE", viewport={"width": 1280, "height": 900})

    expect(visitor.page.locator("html")).to_have_attribute("lang", "de")
    pages = visitor.page.get_by_role("navigation", name="Seiten", exact=True)
    expect(pages.get_by_role("link", name="Jetzt", exact=True)).to_be_visible()
    expect(visitor.page.locator("#live")).to_have_text(re.compile(r"live · Batch \d+|vor \d"))
    assert visitor.violations() == []
    assert visitor.page.evaluate(CLIPPED) == []

    visitor.page.locator("main").click(position={"x": 1, "y": 1})
    visitor.page.keyboard.press("c")
    expect(visitor.page.locator("[data-copy=command]")).to_have_text("Kopiert")

    visitor.page.set_viewport_size(PHONE)
    assert not visitor.is_wider_than_the_screen()


@pytest.mark.parametrize(
    "address", ["/queues", "/search", "/audit", "/alerts", "/quarantine", "/message?id=0/0/0"]
)
def test_on_a_phone_no_table_is_cut_off_and_cards_are_accessible(visit, address):
    visitor = visit(address, viewport=PHONE)
    wait_until(lambda: visitor.page.evaluate(f"{CLIPPED_TABLES}.length === 0"))
    assert visitor.violations() == []


@pytest.mark.parametrize("address", ["/queues", "/search", "/audit", "/"])
def test_on_a_phone_no_card_cuts_an_instant(visit, address):
    page = visit(address, viewport=PHONE).page
    expect(page.locator("table.cards").first).to_be_visible()
    page.evaluate(
        "document.querySelectorAll('.cards time')"
        ".forEach(one => { one.textContent = '2026-11-28 10:36:26.963'; })"
    )

    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("address", ["/queues", "/search", "/causes", "/audit", "/"])
def test_on_a_phone_a_row_of_a_wide_table_is_a_card(visit, address):
    page = visit(address, viewport=PHONE).page
    card = page.locator("table.cards tbody tr").first
    expect(card).to_be_visible()
    label = "getComputedStyle(document.querySelector('.cards td[data-label]'), '::before').content"
    column = page.locator(".cards td[data-label]").first.get_attribute("data-label")
    assert column
    assert page.evaluate(label) == f'"{column}"'
    expect(page.locator("table.cards").first).to_have_role("table")
    expect(card).to_have_role("row")

    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator("table.cards")).to_have_count(0)


def test_only_what_scrolls_is_a_stop_of_the_tab_key(visit):
    stops = visit("/queues", viewport={"width": 1280, "height": 900}).page.locator(
        ".scroll[tabindex]"
    )
    expect(stops).to_have_count(0)
    phone = visit("/message?id=0/0/0", viewport=PHONE).page
    expect(phone.get_by_role("region", name="The life as a picture")).to_have_attribute(
        "tabindex", "0"
    )


def test_the_legend_of_the_curve_names_what_a_bar_stands_for(visit):
    legend = visit("/queue?queue=billing&stretch=all").page.locator(".u-legend")
    expect(legend).to_contain_text("died in")
    expect(legend).not_to_contain_text("purged")


def test_the_instant_is_chosen_on_the_page_and_stays_in_links(visit):
    page = visit("/queue?queue=billing&state=unacked").page
    expect(page.locator("main")).to_contain_text("order 5")

    page.keyboard.press("t")
    page.keyboard.type("0")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("as_of=0"))
    expect(page.locator("main")).to_contain_text("No message is unacked")
    expect(page.locator("#command")).to_contain_text("--as-of 0")
    page.get_by_role("link", name="Queues").click()
    expect(page).to_have_url(re.compile("/queues.*as_of=0"))


def test_the_keys_open_pages_and_the_help(visit):
    page = visit().page

    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("q")

    expect(page).to_have_url(re.compile("/queues$"))


def test_the_palette_leads_to_a_queue_by_a_part_of_its_name(visit):
    visitor = visit("/balance")
    page = visitor.page

    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    expect(page.locator("#palette .places a").first).to_be_visible()
    assert visitor.violations() == []
    page.keyboard.type("billi")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("/queue\\?.*queue=billing"))


def test_the_palette_never_leads_to_what_was_typed_before(visit):
    page = visit("/balance").page
    page.keyboard.press("Control+k")
    places = page.locator("#palette .places a")
    expect(places.first).to_be_visible()
    held = []
    page.route("**/goto?q=**", lambda route: held.append(route))  # noqa: PLW0108 (it marks it)

    page.keyboard.type("b")
    expect(places).to_have_count(0)
    page.unroute("**/goto?q=**")
    page.keyboard.type("illi")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("/queue\\?.*queue=billing"))
    assert held


def test_on_a_phone_the_header_leaves_most_of_the_screen(visit):
    page = visit("/causes", viewport=PHONE).page
    height = page.evaluate("document.querySelector('header').getBoundingClientRect().height")
    assert height < PHONE["height"] / 4
    expect(page.locator("header a[aria-current]")).to_be_in_viewport()


def test_on_a_phone_filters_are_folded_and_targets_are_large(visit):
    page = visit("/search", viewport=PHONE).page
    expect(page.locator("details.fold form")).to_be_hidden()
    page.get_by_text("Filters").click()
    expect(page.locator("details.fold form")).to_be_visible()

    sizes = page.evaluate(
        "[...document.querySelectorAll('header a, header button, main form button')]"
        ".filter(one => one.offsetParent).map(one => one.getBoundingClientRect().height)"
    )
    assert sizes
    assert min(sizes) >= 43.5


def test_the_depth_is_a_curve_and_the_topology_a_graph(visit):
    expect(visit("/queue?queue=billing&stretch=all").page.locator("canvas")).to_be_visible()
    graph = visit("/topology").page.locator("[data-dot] svg")
    expect(graph).to_be_visible()
    expect(graph).to_contain_text("billing")


def test_the_graph_zooms_pans_searches_and_leads_on(visit):
    visitor = visit("/topology?stretch=7d", color_scheme="dark")
    page = visitor.page
    graph = page.locator("[data-dot] svg")
    expect(graph).to_be_visible()
    part = "document.querySelector('[data-dot] svg').viewBox.baseVal"
    whole = page.evaluate(f"{part}.width")

    page.get_by_role("button", name="Larger").click()
    assert page.evaluate(f"{part}.width") < whole
    left = page.evaluate(f"{part}.x")
    page.locator("[data-dot]").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{part}.x") > left
    box = graph.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 65, box["y"] + 5)
    page.mouse.up()
    assert page.evaluate(f"{part}.x") < left + whole / 10
    page.get_by_role("button", name="Fit").click()
    assert page.evaluate(f"{part}.width") == whole

    page.get_by_label("Find in the picture").fill("billing")
    expect(page.locator("[data-dot] .node.dim").first).to_be_attached()
    expect(page.locator("[data-dot] .node:not(.dim)").first).to_contain_text("billing")
    stroke = "getComputedStyle(document.querySelector('[data-dot] .node text')).fill"
    assert page.evaluate(stroke) == page.evaluate("getComputedStyle(document.body).color")

    page.locator("[data-dot] .node:not(.dim) a").first.click()
    expect(page).to_have_url(re.compile("/(queue|topology)\\?.*(queue|around)=billing"))


def test_the_plan_of_an_import_draws_what_is_before_and_after(visit):
    page = visit("/definitions").page
    document = (
        '{"queues": [{"name": "late", "vhost": "/"}],'
        ' "bindings": [{"source": "orders", "destination": "late", "vhost": "/"}]}'
    )
    page.get_by_label("Definitions (JSON)").fill(document)
    page.get_by_role("button", name="Plan").click()

    expect(page.locator("[data-dot]")).to_have_count(2)
    expect(page.locator("[data-dot] .node.new")).to_contain_text("late")


def test_the_command_is_copied_without_https_too(browser, shop):
    with console_of(shop.root) as (url, link):
        elsewhere = url.replace("127.0.0.1", gethostname())
        visitor = Visitor(browser, elsewhere)
        visitor.open(link.replace(url, elsewhere))
        page = visitor.page
        assert page.evaluate("navigator.clipboard === undefined")
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        page.locator("#as-of").focus()
        page.keyboard.press("Control+V")
        expect(page.locator("#as-of")).to_have_value("dlx overview")
        visitor.close()


def test_a_new_batch_is_shown_on_an_open_page(visit, shop):
    page = visit("/queue?queue=box").page
    expect(page.locator("#live")).to_have_text(re.compile(r"^batch 1 · [\d,]+ d ago$"))
    expect(page.locator("#live")).to_have_class("late")  # the shop's batches are old

    shop.brokers[0].get("box", "z", 1, auto_ack=True, channel="reader")
    shop.brokers[0].at(3000)
    batch = shop.commit()

    expect(page.locator("#live")).to_have_text(re.compile(rf"^batch {batch} · [\d,]+ d ago$"))
    expect(page.locator("main")).to_contain_text("No message is ready.")


def test_a_page_that_takes_longer_says_so_and_then_shows_its_content(browser, shop, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE_S", 0.0)
    with console_of(shop.root) as (url, link):
        visitor = Visitor(browser, url)
        answer = visitor.page.goto(link)
        expect(visitor.page.locator("#verdict")).to_be_visible()
        queue = visitor.page.goto("/queue?queue=billing&stretch=all")
        expect(visitor.page.locator("canvas")).to_be_visible()
        visitor.close()

    assert [one and one.status for one in (answer, queue)] == [202, 202]
    assert visitor.problems == []


def test_forms_are_accepted_from_the_page_and_their_answers_stay(visit, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    page = visit("/search?queue=mail").page
    page.get_by_text("Saved views").click()
    page.get_by_label("Name", exact=True).fill("mail that died")
    page.get_by_role("button", name="Save this view").click()
    expect(page.get_by_role("link", name="mail that died")).to_be_visible()

    page.get_by_role("link", name="Redrive…").click()
    page.get_by_text("Edit the letter first").click()
    page.get_by_label("Headers, as typed JSON").fill('{"tenant": "b"}')
    page.get_by_role("button", name="Seal the plan with this edit").click()

    expect(page.locator("main")).to_contain_text("nothing has moved")
    expect(page.locator(".diff")).to_contain_text('+header tenant: "b"')
    plan = visit("/definitions").page
    plan.get_by_role("button", name="Plan").click()
    expect(plan.locator("h1")).to_contain_text("Plan of an import")


def test_a_stranger_sees_nothing(browser, site):
    visitor = Visitor(browser, site[0])

    answer = visitor.page.goto("/queues")

    assert answer is not None
    assert answer.status == 401
    expect(visitor.page.locator("body")).not_to_contain_text("billing")
    visitor.close()


def test_an_order_number_leads_from_the_first_page_to_why_it_died(visit):
    page = visit("/").page

    page.keyboard.press("f")
    page.keyboard.type("order 0")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Message first 0/0/0")).to_be_visible()
    expect(page.locator("dd.why")).to_contain_text("anna rejected it")


def test_a_queue_of_letters_leads_to_a_plan_with_the_keyboard_on_a_phone(visit):
    page = visit("/queues?name=mail", viewport=PHONE).page
    expect(page.locator("main tbody tr")).to_have_count(1)
    expect(page.locator("main tbody")).to_contain_text("mail")
    page.goto("/queue?queue=dead")

    page.get_by_role("link", name=re.compile("^Redrive all expired in mail")).focus()
    page.keyboard.press("Enter")

    expect(page.locator("#count")).to_contain_text("1 letter to redrive")


def test_the_axis_of_a_curve_has_no_half_message(visit):
    page = visit("/").page
    page.add_init_script(
        "window.written = []; const fill = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {"
        " written.push(String(text)); return fill.call(this, text, ...more); };"
    )
    page.goto("/queue?queue=billing&stretch=all")
    expect(page.locator("canvas")).to_be_visible()
    wait_until(lambda: page.evaluate("written.includes('1')"))

    assert [one for one in page.evaluate("written") if re.fullmatch(r"[0-9]*[.,][0-9]+", one)] == []


def test_the_life_of_a_message_is_a_picture_that_says_what_it_shows(visit):
    page = visit("/message?id=0/0/2").page

    picture = page.get_by_role("img", name=re.compile("2 stays in 2 queues .* with 1 death"))
    expect(picture).to_be_visible()
    expect(picture).to_contain_text("expired")
    region = page.get_by_role("region", name="The life as a picture")
    page.set_viewport_size(PHONE)  # there it scrolls, so the Tab key stops at it
    expect(region).to_have_attribute("tabindex", "0")
    region.focus()
    expect(region).to_be_focused()
    expect(page.locator("#life")).to_contain_text("TTL 500 ms, no consumer took it")


def test_on_a_phone_a_sentence_goes_on_after_an_instant(visit):
    page = visit("/message?id=0/0/2", viewport=PHONE).page
    ages = "[...document.querySelectorAll('dd.why time[data-ago]')].map(one => "
    ages += "getComputedStyle(one, '::after').display)"

    assert set(page.evaluate(ages)) == {"inline-block"}


def test_the_list_of_queues_is_not_cut_on_a_usual_screen(visit):
    page = visit("/queues", viewport={"width": 1280, "height": 800}).page

    expect(page.locator("main tbody tr").first).to_be_visible()
    assert page.evaluate(
        "(() => { const place = document.querySelector('main .scroll');"
        " return place.scrollWidth <= place.clientWidth; })()"
    )


def test_the_names_of_deployments_at_one_moment_are_not_written_over_each_other(visit, shop):
    for version in ("2.0", "2.1"):
        shop.brokers[0].do(commands.Deployed(service="invoices-worker", version=version))
    shop.brokers[0].at(4000)
    shop.commit()
    visitor = visit("/health")
    visitor.page.add_init_script(
        "window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {"
        " if (text.startsWith('invoices-worker')) window.written.push([text, y]);"
        " write.apply(this, arguments); };"
    )

    visitor.open("/queue?queue=billing&stretch=all")

    expect(visitor.page.locator("canvas")).to_be_visible()
    wait_until(lambda: visitor.page.evaluate("window.written.length > 1"))
    heights = dict(visitor.page.evaluate("window.written"))
    assert set(heights) == {"invoices-worker 2.0", "invoices-worker 2.1"}
    assert abs(heights["invoices-worker 2.0"] - heights["invoices-worker 2.1"]) >= 14


def test_on_a_phone_the_sections_of_a_queue_are_folded_and_stay_as_they_are(browser, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders")
    for number in range(60):
        broker.publish("", "orders", f"order {number} " + "with a long body " * 8)
    recording.commit()
    ContentsUpdater(recording.place).update()
    with console_of(recording.root) as (url, link):
        visitor = Visitor(browser, url, viewport=PHONE)
        visitor.open(link)
        visitor.open("/queue?queue=orders")
        page = visitor.page
        height = "document.documentElement.scrollHeight"
        for name in ("Settings", "Contents, the head first 60", "Purge"):
            heading = page.get_by_role("heading", name=name, exact=True)
            expect(heading).to_be_visible()
            assert not heading.evaluate("one => one.closest('details').open"), name
        assert page.evaluate(height) < 3 * PHONE["height"]
        assert visitor.violations() == []

        page.get_by_role("heading", name="Contents").click()
        expect(page.locator("table.cards")).to_contain_text("order 0")
        assert page.evaluate(CLIPPED_TABLES) == []
        broker.publish("", "orders", "the last")
        broker.at(2_000)
        recording.commit()
        expect(page.get_by_role("heading", name="Contents, the head first 61")).to_be_visible()
        expect(page.locator("table.cards")).to_contain_text("order 0")
        assert not page.evaluate("document.getElementById('settings').open")
        page.get_by_role("heading", name="Contents").click()
        expect(page.locator("#contents table")).to_be_hidden()

        page.set_viewport_size({"width": 1280, "height": 900})
        visitor.open("/queue?queue=orders")
        expect(page.locator("#contents table")).to_be_visible()
        visitor.close()
        assert visitor.problems == []
    recording.close()


def test_the_last_time_below_a_curve_is_not_cut(visit):
    page = visit("/queue?queue=dead&stretch=all").page
    expect(page.locator("canvas")).to_be_visible()

    right = page.evaluate("document.querySelector('.u-wrap').getBoundingClientRect().right")
    plotted = page.evaluate("document.querySelector('.u-over').getBoundingClientRect().right")
    assert right - plotted >= 36, "half of a label such as 2026-11-28 is about 34 wide"


@pytest.mark.parametrize("locale", ["en-US", "de-DE"])
def test_a_cause_with_its_release_fits_a_usual_screen(browser, tmp_path, locale):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("orders", max_length=1)
    broker.do(commands.Deployed(service="invoices-worker", version="2.1"))
    broker.at(720_000)
    for _ in range(3):
        broker.publish("", "orders", "order")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    with console_of(recording.root) as (url, link):
        visitor = Visitor(browser, url, viewport={"width": 1280, "height": 900}, locale=locale)
        visitor.open(link)
        visitor.open("/causes")
        expect(visitor.page.locator("tbody")).to_contain_text("invoices-worker 2.1")
        assert visitor.page.evaluate(CLIPPED) == []
        assert visitor.violations() == []
        visitor.close()
        assert visitor.problems == []
