"""What a console does before somebody asks."""

from streaming.console.app import PAGES
from streaming.console.languages import ENGLISH
from streaming.console.page import Console, View
from streaming.console.pages.now import last_balance, now
from streaming.console.reader import Reader
from streaming.console.rights import User
from streaming.console.server import warm_up
from tests.fixtures.waiting import wait_until
from tests.unit.queries.shop import a_shop


def test_every_template_is_compiled_and_stays_so(tmp_path):
    console = Console(Reader(str(tmp_path)), PAGES)
    templates = console.templates(ENGLISH)
    assert not templates.cache
    warm_up(console)
    assert templates.cache is not None
    assert {name for _loader, name in templates.cache} == {*templates.list_templates()}
    assert console.templates(ENGLISH) is templates


def test_the_first_page_has_a_balance_at_once(tmp_path):
    recording = a_shop(tmp_path / "tables")
    recording.close()
    console = Console(Reader(str(recording.root)), PAGES)
    warm_up(console)
    with View(console, User("", "viewer", administrator=True), "/", {}) as view:
        wait_until(lambda: last_balance(view) is not None)
        page = now(view)

    assert isinstance(page, dict)
    assert page["balance"] is not None
