"""Go to: a page, a queue or an exchange by a part of its name; what Ctrl-K opens."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from streaming.console.page import Answer, View
from topology.declarations import PREDECLARED_NAMES
from topology.sentences import Sentence, say

MOST: Final = 20


class Place(NamedTuple):
    """Something to go to; `kind` says what it is, `about` has the parameters of its page."""

    kind: str
    name: str
    vhost: str
    path: str
    about: Mapping[str, str] = {}


class Topic(NamedTuple):
    """What people look for by a word of their own, and the page that has it."""

    words: Sentence
    name: Sentence
    path: str
    about: Mapping[str, str] = {}


TOPICS: Final = (
    Topic(
        say("purge purged emptied who"),
        say("Who purged"),
        "/audit",
        {"action": "purges"},
    ),
    Topic(
        say("deploy deployed deployments release version rollout"),
        say("Deployments"),
        "/audit",
        {"action": "deployments"},
    ),
    Topic(
        say("permissions rights access user"),
        say("Who changed permissions"),
        "/audit",
        {"action": "permissions"},
    ),
    Topic(
        say("policy policies ttl limit"),
        say("Who changed policies"),
        "/audit",
        {"action": "policies"},
    ),
    Topic(say("lost gone missing dropped vanished"), say("Is anything lost?"), "/balance"),
    Topic(
        say("redrive requeue retry replay resend republish send back"), say("Redrives"), "/redrives"
    ),
    Topic(say("why reason died error exception"), say("Causes"), "/causes"),
    Topic(say("lag batch gate down stuck"), say("Health"), "/health"),
    Topic(say("malformed poison invalid"), say("Quarantine"), "/quarantine"),
)
"""What a word leads to, besides names."""

LEAST_WORD: Final = 3
"""Shorter beginnings of a word lead to no topic."""


def goto(view: View) -> Answer:
    """Show the places whose name contains a text; those that begin with it come first."""
    text = (view.text("q", "") or "").strip()
    view.title = say("Go to")
    wanted = text.lower()
    pages = [
        Place("page", view.language.said(page.nav or page.name or ""), "", page.path)
        for page in view.console.pages
        if (page.nav or (page.name and wanted)) and page.is_for(view.user)
    ]
    named = view.of_topology("places", lambda: _places(view)) if wanted else []
    found = _with_name(wanted, (*pages, *named))
    found += [one for one in topics_of(view, wanted) if all(one.name != had.name for had in found)]
    return {"text": text, "places": found[:MOST], "has_more": len(found) > MOST}


def topics_of(view: View, text: str) -> list[Place]:
    """The pages about what a word means, in the language of the page or in English."""
    if len(text) < LEAST_WORD:
        return []
    wanted = text.lower()
    shown = {page.path for page in view.console.pages if page.is_for(view.user)}
    return [
        Place("page", view.language.said(one.name), "", one.path, one.about)
        for one in TOPICS
        if one.path in shown
        and any(
            word.startswith(wanted)
            for words in (one.words, view.language.said(one.words))
            for word in str(words).lower().split()
        )
    ]


def places_named(view: View, text: str) -> list[Place]:
    """The queues and exchanges whose name contains a text; those that begin with it come first."""
    found = _with_name(text.lower(), view.of_topology("places", lambda: _places(view)))
    return [place for place in found if view.sees(place.vhost)]


def address_of(view: View, place: Place) -> str:
    """The page that a place is, or that is about it."""
    if place.kind == "page":
        return view.url(place.path, **place.about)
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
