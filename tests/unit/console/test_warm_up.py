"""What a console does before somebody asks."""

from streaming.console.app import PAGES
from streaming.console.languages import ENGLISH
from streaming.console.page import Console
from streaming.console.reader import Reader
from streaming.console.server import warm_up


def test_every_template_is_compiled_and_stays_so(tmp_path):
    console = Console(Reader(str(tmp_path)), PAGES)
    templates = console.templates(ENGLISH)
    assert not templates.cache
    warm_up(console)
    assert templates.cache is not None
    assert {name for _loader, name in templates.cache} == {*templates.list_templates()}
    assert console.templates(ENGLISH) is templates
