"""Go to: a page, a queue or an exchange by a part of its name; what Ctrl-K opens."""

from collections.abc import Iterable
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
        Place("page", view.language.said(page.nav or page.name or ""), "", page.path)
        for page in view.console.pages
        if page.nav or (page.name and wanted)
    ]
    named = view.of_topology("places", lambda: _places(view)) if wanted else []
    found = _with_name(wanted, (*pages, *named))
    return {"text": text, "places": found[:MOST], "has_more": len(found) > MOST}


def places_named(view: View, text: str) -> list[Place]:
    """The queues and exchanges whose name contains a text; those that begin with it come first."""
    found = _with_name(text.lower(), view.of_topology("places", lambda: _places(view)))
    return [place for place in found if view.sees(place.vhost)]


def address_of(view: View, place: Place) -> str:
    """The page about a queue or an exchange."""
    if place.kind == "queue":
        return view.url("/queue", vhost=place.vhost, queue=place.name)
    return view.url("/topology", vhost=place.vhost, around=place.name)


def _with_name(wanted: str, places: Iterable[Place]) -> list[Place]:
    found = [place for place in places if wanted in place.name.lower()]
    return sorted(found, key=lambda place: not place.name.lower().startswith(wanted))


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
