"""Nothing that was in a message, a name or an address becomes markup, a query or another's data."""

import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from streaming.console.app import PAGES
from tests.fixtures.waiting import wait_until
from tests.unit.console.addresses import ask, places, sealed_plan
from tests.unit.console.injections import (
    INJECTIONS,
    MARK,
    addresses_of_two_deaths,
    attacked_tables,
    tables_of_two_deaths,
)

SECRET = "sealed-4711-secret"  # noqa: S105 - what must not be shown
LEAST = 500
TAGS = {"iframe", "object", "embed", "base", "img", "video", "style", "template", "math", "body"}
OWN = re.compile(r"(/(?!/)|#|\?|$)")
PATHS = ("/static/{}", "/{}", "/message/{}")
LEAST_PLACES = 100
"""A few of each page, at least; those that are found are more."""


class Checked(HTMLParser):
    """Collects what does not belong to a page of ours."""

    def __init__(self):
        super().__init__()
        self.faults = []
        self.bodies = 0

    def handle_starttag(self, tag, attrs):
        self.bodies += tag == "body"
        if tag in TAGS - {"body"} or self.bodies > 1:
            self.faults.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in {"style", "srcdoc", "hx-on::load"}:
                self.faults.append(f"{tag} {name}")
            if name in {"href", "src", "action", "formaction", "hx-get"} and not OWN.match(value):
                self.faults.append(f"{tag} {name}={value}")
        if tag == "script" and not dict(attrs).get("src", "").startswith("/static/"):
            self.faults.append("script")


def faults_of(page):
    checked = Checked()
    checked.feed(page)
    return [
        *checked.faults,
        *(hex(ord(one)) for one in page if not one.isprintable() and one not in "\n\t"),
    ]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """The folder of tables full of attacks."""
    return attacked_tables(tmp_path_factory.mktemp("attacked") / "tables", SECRET)


@pytest.fixture(scope="module")
def everything(make_client, attacked):
    """Asks as someone who may see all of them."""
    return make_client(attacked)


@pytest.fixture(scope="module")
def stranger(make_client_of_anna, attacked):
    """Asks as a viewer who has no permission anywhere."""
    return make_client_of_anna(attacked)


@pytest.fixture(scope="module")
def two_deaths(make_client, tmp_path_factory):
    """The console of attacks that died twice, when its balance is drawn."""
    client = make_client(tables_of_two_deaths(tmp_path_factory.mktemp("twice") / "tables"))
    wait_until(lambda: 'id="account"' in client.get("/balance").text)  # it is drawn meanwhile
    return client


def test_there_are_enough_attacks():
    assert len(INJECTIONS) >= LEAST


@pytest.mark.parametrize(
    "address",
    [
        *(f"/search?page={page}" for page in range(1, 7)),
        *(f"/causes?page={page}" for page in range(1, 4)),
        "/queues",
        "/queue?queue=dead",
        "/compare?id=m5&with=m300",
        "/redrive/plan",
        "/audit",
        "/sql?sql=FROM+dead_letters",
        "/sql?sql=FROM+messages",
        *(f"/message?id=m{number}&body=json" for number in range(0, len(INJECTIONS), 40)),
    ],
)
def test_attacks_in_messages_and_names_are_shown_as_text(everything, address):
    answer = everything.get(address)

    assert answer.status_code == 200
    assert faults_of(answer.text) == []


@pytest.mark.parametrize(
    "language",
    ["en", pytest.param("de", marks=pytest.mark.nightly)],  # in every run, in a browser
)
def test_attacks_that_died_twice_are_shown_as_text_in_every_language(two_deaths, language):
    faults = {}
    shown = ""
    for address in addresses_of_two_deaths():
        answer = two_deaths.get(address, headers={"accept-language": language})
        if answer.status_code not in {200, 202} or faults_of(answer.text):
            faults[address] = (answer.status_code, faults_of(answer.text))
        shown += answer.text

    assert faults == {}
    assert f'<html lang="{language}">' in shown
    for part in ('id="related"', 'id="account"', 'id="died"', "first " if language == "en" else ""):
        assert part in shown
    assert f"&lt;script&gt;{MARK}&lt;/script&gt;" in shown


def test_the_pages_do_show_the_attacks(everything):
    assert f"&lt;script&gt;{MARK}&lt;/script&gt;" in everything.get("/search?page=6").text


def needed(plan):
    """What a page needs so that it reads everything that it can read."""
    return {
        "/queue": {"queue": "dead"},
        "/changes": {"queue": "dead", "from": "0", "to": "0"},
        "/message": {"id": "m0"},
        "/compare": {"id": "m0", "with": "m1"},
        "/message/body": {"id": "m0"},
        "/message/scenario": {"id": "m0"},
        "/redrive": {"id": plan},
        "/redrive/plan": {"to": "exchange", "name": "x", "queue": "none"},
        "/redrive/seal": {"queue": "none", "to": "exchange", "name": "x"},
        "/redrive/approve": {"id": plan},
        "/redrive/control": {"id": plan},
        "/sql/export": {"sql": "SELECT 1 AS one"},
        "/search/export": {"queue": "none"},
    }


def wrong_with(answer, attack, *, is_stranger):
    """What an answer must not have."""
    found = faults_of(answer.text) if "html" in answer.headers.get("content-type", "") else []
    if answer.status_code >= 500:
        found.append(str(answer.status_code))
    leaks = {"root:", *({SECRET} if is_stranger else ())}
    return found + [one for one in leaks if one in answer.text and one not in attack]


@pytest.mark.parametrize(
    "attacks",
    [
        pytest.param(INJECTIONS[::2], id="half"),
        pytest.param(INJECTIONS[1::2], id="other half", marks=pytest.mark.nightly),
    ],  # in every run, all are in addresses that a browser opens
)
def test_an_attack_in_any_parameter_or_field_of_any_page_is_only_a_text(
    everything, stranger, monkeypatch, tmp_path, attacks
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    needs = needed(sealed_plan(everything, "work"))
    found = places(monkeypatch, everything, needs)
    before = everything.get("/sql?sql=SELECT+kind,count(*)+FROM+events+GROUP+BY+ALL+ORDER+BY+ALL")
    faults = {}
    tried = set()
    for number, place in enumerate(found):
        for turn, attack in enumerate(attacks[number % len(attacks) :: len(found)]):
            client = stranger if turn % 2 else everything
            tried.add(place)
            answer = ask(client, place, attack, needs.get(place[0], {}))
            wrong = wrong_with(answer, attack, is_stranger=client is stranger)
            if wrong:
                faults[*place, attack] = wrong
    after = everything.get("/sql?sql=SELECT+kind,count(*)+FROM+events+GROUP+BY+ALL+ORDER+BY+ALL")

    assert faults == {}
    assert len(found) >= LEAST_PLACES
    assert tried == {*found}
    assert {path for path, *_ in found} == {page.path for page in PAGES}
    assert re.findall("<td.*?</td>", after.text) == re.findall("<td.*?</td>", before.text)
    assert not list(Path(tempfile.gettempdir()).glob("dlx-stolen*"))


def test_an_attack_in_a_path_finds_nothing(stranger, everything):
    faults = {}
    for number, attack in enumerate(INJECTIONS):
        address = PATHS[number % len(PATHS)].format(quote(attack[:200]))
        client = stranger if number % 2 else everything
        answer = client.get(address)
        wrong = wrong_with(answer, attack, is_stranger=client is stranger)
        if wrong or answer.status_code not in {401, 404}:
            faults[address] = (answer.status_code, wrong)

    assert faults == {}
