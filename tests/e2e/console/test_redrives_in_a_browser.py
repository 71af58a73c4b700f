"""Letters are sent back in a real browser: every state of a redrive can be used by everybody."""

import re
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from streaming.broker import commands
from streaming.contents.updater import ContentsUpdater
from streaming.protocol.command_json import parse_command
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.message_attributes import MessageId
from tests.fixtures.browser import Visitor, console_of
from tests.unit.queries.redrives.letters import Shop

LETTERS = 110


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Tables of redrives in every state, and letters that wait."""
    shop = Shop(tmp_path_factory.mktemp("redrives") / "tables", letters=LETTERS)
    offsets = iter(range(LETTERS))

    def approve(count, **options):
        ids = tuple(MessageId(0, 0, next(offsets)) for _ in range(count))
        plan = shop.plan(DeadLetterFilter(ids=ids))
        shop.approve(plan, **options)
        return plan.sealed.id

    def control(redrive, action):
        command = {"op": "control_redrive", "id": redrive, "action": action, "reason": "lunch"}
        shop.broker.answer(parse_command(command))

    done = approve(2)
    for one in shop.broker.get("work", "taken", count=1):
        shop.broker.ack(one.ref)
    shop.kill("work", 1)
    stopped = approve(3, rate=1, stop_after=1)
    shop.kill("work", 1)
    reason = "stop_after"
    shop.broker.do(commands.RedriveVerdict(id=stopped, round=0, verdict="stop", reason=reason))
    running, paused, cancelled = (approve(3, rate=1) for _ in range(3))
    control(paused, "pause")
    control(cancelled, "cancel")
    shop.recording.commit()
    ContentsUpdater(shop.recording.place).update()
    yield SimpleNamespace(
        shop=shop,
        done=done,
        stopped=stopped,
        running=running,
        paused=paused,
        cancelled=cancelled,
    )
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


def test_the_plan_and_what_is_refused_about_it_are_accessible(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    page = visitor.page
    button = page.get_by_role("button", name=re.compile(r"Redrive 10\d letters now"))
    expect(button).to_be_visible()
    [count] = re.findall(r"\d+", button.inner_text())
    page.get_by_label("Why? It is kept with the redrive.").fill("   ")
    page.get_by_label(f"Type {count} to confirm").fill(count)

    button.click()

    expect(page.locator("#fault")).to_contain_text("Give a reason")
    expect(page.get_by_label(f"Type {count} to confirm")).to_have_value(count)
    page.get_by_text("Other choices").click()
    page.get_by_text("Edit the letters first").click()
    visitor.can_be_used_by_everybody()


def test_a_sealed_plan_is_accessible_until_it_is_thrown_away(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    visitor.page.get_by_role("button", name="Seal this plan").click()
    expect(visitor.page.locator("main")).to_contain_text("nothing has moved")
    visitor.page.get_by_text("What the fields mean").click()

    visitor.can_be_used_by_everybody()

    visitor.open("/redrives")
    visitor.page.set_viewport_size({"width": 1280, "height": 900})
    expect(visitor.page.locator("#plans tbody tr")).to_have_count(1)
    visitor.can_be_used_by_everybody()
    visitor.page.get_by_role("button", name=re.compile("Throw away the plan r-[0-9a-f]+")).click()
    expect(visitor.page.locator("#plans")).to_have_count(0)


def test_a_redrive_that_was_accepted_is_accessible_before_the_tables_know_it(visitor):
    visitor.open("/redrive/plan?queue=work&reason=rejected")
    visitor.page.get_by_role("button", name="Seal this plan").click()
    expect(visitor.page.locator("#approve")).to_be_visible()
    visitor.open(f"{visitor.page.url}&sent=yes")

    expect(visitor.page.locator("#sent")).to_contain_text("The job has accepted it")
    visitor.can_be_used_by_everybody()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("done", "Done: 2 letters were handled. 1 were acked, 1 died again, 0 wait"),
        ("running", "It runs: 1 of 3 letters are handled."),
        ("paused", "It is paused: 1 of 3 letters are handled, and no other moves."),
        ("stopped", "It stopped by itself: 1 of 3 letters are handled, and no other moves."),
        ("cancelled", "It was cancelled: 1 of 3 letters are handled, and no other moves."),
    ],
)
def test_a_redrive_is_accessible_in_every_state(visitor, shop, name, said):
    visitor.open(f"/redrive?id={getattr(shop, name)}")

    expect(visitor.page.locator("#result")).to_contain_text(said)
    visitor.can_be_used_by_everybody()
