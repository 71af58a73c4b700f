"""Go to: a page, a queue or an exchange by a part of its name; what Ctrl-K opens."""

from typing import Final, NamedTuple

from streaming.console.page import Answer, View
from topology.declarations import PREDECLARED_NAMES

MOST: Final = 20


class Place(NamedTuple):
    """Something to go to; `kind` says what it is."""

    kind: str
    name: str
    vhost: str
    path: str


def goto(view: View) -> Answer:
    """Show the places whose name contains a text; those that begin with it come first."""
    text = (view.text("q", "") or "").strip()
    wanted = text.lower()
    pages = [
        Place("page", view.language.said(page.nav), "", page.path)
        for page in view.console.pages
        if page.nav
    ]
    named = view.of_topology("places", lambda: _places(view)) if wanted else []
    found = [place for place in (*pages, *named) if wanted in place.name.lower()]
    found.sort(key=lambda place: not place.name.lower().startswith(wanted))
    return {"text": text, "places": found[:MOST], "has_more": len(found) > MOST}


def _places(view: View) -> list[Place]:
    found = []
    for vhost, each in view.declared.items():
        definitions = each.definitions()
        found += [Place("queue", one.name, vhost, "/queue") for one in definitions.queues]
        found += [
            Place("exchange", one.name, vhost, "/topology")
            for one in definitions.exchanges
            if one.name not in PREDECLARED_NAMES
        ]
    return found
