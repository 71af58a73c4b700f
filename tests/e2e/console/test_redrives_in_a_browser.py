"""Letters are sent back in a real browser: every state of a redrive can be used by everybody."""

import re
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from streaming.contents.updater import ContentsUpdater
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.message_attributes import MessageId
from tests.e2e.console.test_pages_in_a_browser import CLIPPED, SMALL
from tests.fixtures.browser import PHONE, Visitor, console_of
from tests.unit.queries.redrives.letters import Shop

LETTERS = 106


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Tables of a redrive that is done, one that runs, and letters that wait."""
    shop = Shop(tmp_path_factory.mktemp("redrives") / "tables", letters=LETTERS)
    found = SimpleNamespace(shop=shop)
    for name, offsets, options in (("done", (0, 1), {}), ("running", (2, 3, 4), {"rate": 1})):
        ids = tuple(MessageId(0, 0, offset) for offset in offsets)
        plan = shop.plan(DeadLetterFilter(ids=ids))
        shop.approve(plan, **options)
        setattr(found, name, plan.sealed.id)
    for one in shop.broker.get("work", "taken", count=1):
        shop.broker.ack(one.ref)
    shop.kill("work", 1)
    shop.recording.commit()
    ContentsUpdater(shop.recording.place).update()
    yield found
    shop.recording.close()


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """Where plans are kept."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def site(shop, state, tmp_path_factory):
    """A console that knows a job, whose Kafka does not answer."""
    config = tmp_path_factory.mktemp("config") / "dlx.toml"
    config.write_text('[kafka]\nbootstrap_servers = ["127.0.0.1:9"]\n')
    with console_of(shop.shop.recording.root, config) as place:
        yield place


@pytest.fixture
def visitor(browser, site, cookies):
    """Somebody who has logged in, on a usual screen; the browser reports refusals alone."""
    found = Visitor(browser, site[0], color_scheme="light", viewport={"width": 1280, "height": 900})
    found.page.context.add_cookies(cookies)
    yield found
    found.close()
    assert [one for one in found.problems if "status of 4" not in one] == []


def is_usable(visitor):
    """Assert that everybody can use the page, in the light, in the dark and on a phone."""
    assert visitor.violations() == []
    assert visitor.page.evaluate(CLIPPED) == []
    visitor.page.emulate_media(color_scheme="dark")
    assert visitor.violations() == []
    visitor.page.set_viewport_size(PHONE)
    expect(visitor.page.locator("h1")).to_be_visible()
    assert not visitor.is_wider_than_the_screen()
    assert visitor.page.evaluate(SMALL) == []


def test_the_plan_and_what_is_refused_about_it_are_accessible(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    page = visitor.page
    button = page.get_by_role("button", name=re.compile(r"Send 10\d letters back now"))
    expect(button).to_be_visible()
    [count] = re.findall(r"\d+", button.inner_text())
    page.get_by_label("Why? It is kept with the redrive.").fill("   ")
    page.get_by_label(f"Type {count} to confirm").fill(count)

    button.click()

    expect(page.locator("#fault")).to_contain_text("Give a reason")
    expect(page.get_by_label(f"Type {count} to confirm")).to_have_value(count)
    page.get_by_text("Other choices").click()
    page.get_by_text("Edit the letters first").click()
    is_usable(visitor)


def test_a_sealed_plan_is_accessible_until_it_is_thrown_away(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    visitor.page.get_by_role("button", name="Seal this plan").click()
    expect(visitor.page.locator("main")).to_contain_text("nothing has moved")
    visitor.page.get_by_text("What the fields mean").click()

    is_usable(visitor)

    visitor.open("/redrives")
    visitor.page.set_viewport_size({"width": 1280, "height": 900})
    expect(visitor.page.locator("#plans tbody tr")).to_have_count(1)
    is_usable(visitor)
    visitor.page.get_by_role("button", name=re.compile("Throw away the plan r-[0-9a-f]+")).click()
    expect(visitor.page.locator("#plans")).to_have_count(0)


def test_a_redrive_that_was_accepted_is_accessible_before_the_tables_know_it(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    visitor.page.get_by_role("button", name="Seal this plan").click()
    expect(visitor.page.locator("#approve")).to_be_visible()
    visitor.open(f"{visitor.page.url}&sent=yes")

    expect(visitor.page.locator("#sent")).to_contain_text("The job has accepted it")
    is_usable(visitor)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("done", "Done: 2 letters were handled. 1 were acked, 1 died again, 0 wait"),
        ("running", "It runs: 1 of 3 letters are handled."),
    ],
)
def test_a_redrive_is_accessible_while_it_runs_and_when_it_is_done(visitor, shop, name, said):
    visitor.open(f"/redrive?id={getattr(shop, name)}")

    expect(visitor.page.locator("#result")).to_contain_text(said)
    is_usable(visitor)
