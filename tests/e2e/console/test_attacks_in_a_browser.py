"""Pages full of attacks in a real browser: nothing runs, nothing is blocked, nothing leaves."""

from urllib.parse import urlencode

import pytest

from tests.fixtures.browser import Visitor, console_of
from tests.unit.console.injections import (
    INJECTIONS,
    addresses_of_two_deaths,
    attacked_tables,
    tables_of_two_deaths,
)

STATUS = "Failed to load resource: the server responded with a status of 4"
"""What the browser says of a page that refuses; it is not an attack that worked."""

PARAMETERS = {
    "/search": ("queue", "exchange", "routing_key", "cause", "header", "cause_header"),
    "/causes": ("by_header", "queue", "routing_key", "exchange", "header", "cause"),
    "/find": ("q",),
    "/compare": ("id", "with"),
    "/queues": ("name", "sort", "show"),
    "/exchanges": ("name", "type"),
    "/connections": ("name",),
    "/channels": ("name",),
    "/consumers": ("name",),
    "/redrive/plan": ("routing_key", "name", "key", "exchange", "cause", "queue"),
    "/audit": ("user", "action"),
    "/definitions": ("name",),
    "/topology": ("around",),
    "/queue": ("queue", "state"),
}
SHOWN = (
    *(f"/search?page={page}" for page in range(1, 7)),
    *("/causes", "/causes?page=2", "/causes?by=queue", "/queues", "/queue?queue=dead&stretch=all"),
    *("/", "/redrive/plan", "/audit", "/sql?sql=FROM+dead_letters", "/balance", "/definitions"),
    *("/?order=oldest", "/search?order=oldest", "/causes?by=header:x-exception"),
    *("/topology", "/health", "/changes?queue=dead&from=0&to=0", "/find?q=script", "/find?q=1"),
    *(f"/compare?id=m{number}&with=m{number + 1}" for number in range(7, len(INJECTIONS), 60)),
    *(f"/message?id=m{number}&body=json" for number in range(3, len(INJECTIONS), 25)),
)
"""Pages that show what was in messages, headers, names and users."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The address of a console of attacks, and a link to it."""
    root = attacked_tables(tmp_path_factory.mktemp("attacked") / "tables", "the end")
    with console_of(root) as place:
        yield place


def addresses():
    """Addresses that together hold every attack."""
    places = [(path, name) for path, names in PARAMETERS.items() for name in names]
    given: dict[str, dict[str, str]] = {path: {} for path in PARAMETERS}
    for number, attack in enumerate(INJECTIONS):
        path, name = places[number % len(places)]
        if name in given[path]:
            yield f"{path}?{urlencode(given[path])}"
            given[path] = {}
        given[path] = {**given[path], name: attack}
    yield from (f"{path}?{urlencode(values)}" for path, values in given.items() if values)


def test_every_attack_is_in_an_address():
    assert sum(one.count("=") for one in addresses()) == len(INJECTIONS)


def test_nothing_that_was_in_a_message_a_name_or_an_address_runs(browser, attacked):
    assert visited(browser, attacked, (*SHOWN, *addresses())) == {}


def test_nothing_that_died_twice_or_belongs_to_an_attack_runs_in_german(browser, tmp_path):
    with console_of(tables_of_two_deaths(tmp_path / "tables")) as place:
        assert visited(browser, place, addresses_of_two_deaths(), locale="de-DE") == {}


def visited(browser, place, chosen, **options):
    """What a browser reports of pages, by address."""
    url, link = place
    visitor = Visitor(browser, url, **options)
    visitor.page.goto(link)
    found = {}
    for address in chosen:
        visitor.open(address)
        told = [one for one in visitor.problems if STATUS not in one]
        if told or not visitor.page.url.startswith(url):
            found[address] = told
        visitor.problems.clear()
    visitor.close()
    return found
