"""Every address of the console, and what it reads: found by asking, so that none is forgotten."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from streaming.console.answering import Asked
from streaming.console.app import PAGES
from streaming.console.page import View
from tests.unit.console.conftest import HOST

ORIGIN: Final = {"origin": f"http://{HOST}"}
"""What the browser sends with a form of the console itself."""

REASON: Final = {"reason": "why", "action": "pause"}


class _Recorded(dict[str, str]):
    """A form that tells which fields are read."""

    def __init__(self, form: dict[str, str], read: set[str]) -> None:
        super().__init__(form)
        self._read = read

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self._read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._read.add(str(key))
        return super().__contains__(key)


@contextmanager
def recorded(monkeypatch: Any) -> Iterator[tuple[dict[str, set[str]], dict[str, set[str]]]]:
    """Yield the parameters and the fields of forms that each page reads inside the block."""
    parameters: dict[str, set[str]] = {page.path: set() for page in PAGES}
    fields: dict[str, set[str]] = {page.path: set() for page in PAGES if page.is_action}
    text, begin = View.text, View.__init__

    def reading(view: View, name: str, default: str | None = None) -> str | None:
        parameters[view.path].add(name)
        return text(view, name, default)

    def beginning(view: View, *arguments: Any, **more: Any) -> None:
        begin(view, *arguments, **more)
        if view.path in fields:
            view.form = _Recorded(view.form, fields[view.path])

    with monkeypatch.context() as patch:
        patch.setattr(View, "text", reading)
        patch.setattr(View, "__init__", beginning)
        yield parameters, fields


def sealed_plan(client: Any, queue: str) -> str:
    """Seal a plan about the letters of a queue; its id."""
    answer = client.post(f"/redrive/seal?queue={queue}", headers=ORIGIN)
    assert answer.status_code == 200, answer.text
    return str(answer.url.params["id"])


def places(
    monkeypatch: Any, client: Any, needed: dict[str, dict[str, str]]
) -> list[tuple[str, str, str]]:
    """Ask every page once; each parameter and field that one reads: path, method or form, name.

    Args:
        needed: what a page needs so that it reads everything.
    """
    with recorded(monkeypatch) as (parameters, fields), monkeypatch.context() as here:
        here.setattr(Asked, "has_sql", lambda _asked: False)  # in a child nothing is recorded
        for page in PAGES:
            values = needed.get(page.path, {})
            if page.is_action:
                client.post(page.path, params=values, headers=ORIGIN, data=REASON)
            else:
                client.get(page.path, params=values)
    ways = {page.path: "POST" if page.is_action else "GET" for page in PAGES}
    found = [(path, ways[path], name) for path, names in parameters.items() for name in names]
    found += [(path, "form", name) for path, names in fields.items() for name in names]
    return sorted(found)


def ask(client: Any, place: tuple[str, str, str], value: str, needed: dict[str, str]) -> Any:
    """Ask a page with a value in one place."""
    path, way, name = place
    if way == "GET":
        return client.get(path, params={**needed, name: value})
    if way == "POST":
        return client.post(path, params={**needed, name: value}, headers=ORIGIN, data=REASON)
    return client.post(path, params=needed, headers=ORIGIN, data={**REASON, name: value})
