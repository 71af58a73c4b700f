"""The shipped translations are whole, and every page can be said in another language."""

import re
from html.parser import HTMLParser

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from streaming.console.app import PAGES
from streaming.console.languages import FOLDER, Languages, fits
from streaming.metrics.alerts import alert_names
from tests.unit.console.addresses import ORIGIN
from tests.unit.console.eventful import ADDRESSES as EVENTFUL
from tests.unit.console.eventful import write_eventful
from tests.unit.console.test_pages import PARAMETERS
from tools.docs.translations import template

SHIPPED = sorted(FOLDER.glob("*.po"))
VALUES = re.compile(r"%\(\w+\)s|\{\{.*?\}\}|\{\w+\}")
TAGS = re.compile(r"<[^>]+>")
WORD = re.compile(r"(?<!\w)[A-Za-z_][\w.-]*\w")
OPEN, SHUT = "⟦", "⟧"
BRACKETS = re.compile(f"([{OPEN}{SHUT}])")
GERMAN = {"Name", "Filter", "Keys"}
"""Texts that are German words, too."""


def messages(file):
    with file.open("rb") as content:
        return [one for one in read_po(content) if one.id]


def texts(one):
    return one if isinstance(one, tuple) else (one,)


def ends(text):
    """Whether a text begins and ends with a space, which may be part of a sentence around it."""
    return text[:1].isspace(), text[-1:].isspace()


def test_german_is_shipped():
    assert "de" in [file.stem for file in SHIPPED]


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_translation_is_complete_and_has_the_values_and_tags_of_each_message(file):
    for one in messages(file):
        sources, targets = texts(one.id), texts(one.string)
        assert all(targets), one.id
        assert not one.fuzzy, one.id
        assert fits(one), one.id
        for find in (VALUES, TAGS):
            wanted = {tuple(sorted(find.findall(source))) for source in sources}
            assert {tuple(sorted(find.findall(target))) for target in targets} == wanted, one.id
        assert {ends(text) for text in targets} == {ends(text) for text in sources}, one.id


@pytest.mark.parametrize("language", [file.stem for file in SHIPPED])
@pytest.mark.parametrize("address", [page.path for page in PAGES if not page.is_action])
def test_every_page_is_shown_in_each_language(shop_console, address, language):
    headers = {"accept-language": language}
    address = f"{address}?{PARAMETERS.get(address, '')}"
    answer = shop_console.get(address, headers=headers)

    assert answer.status_code == shop_console.get(address).status_code
    if "text/html" in answer.headers["content-type"]:
        assert f'<html lang="{language}">' in answer.text


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A language that is English in brackets, so that other texts stand out."""
    catalog = Catalog(locale="de")
    for one in template():
        if one.id and one.id != "1,234.5":
            said = tuple(f"{OPEN}{text}{SHUT}" for text in texts(one.id))
            said_once = said if isinstance(one.id, tuple) else said[0]
            catalog.add(one.id, said_once, context=one.context)
    file = tmp_path_factory.mktemp("languages") / "strange.po"
    with file.open("wb") as content:
        write_po(content, catalog)
    return Languages(str(file))


@pytest.fixture(scope="module")
def in_strange(make_client, shop_root, strange):
    """The console of the shop in that language."""
    return make_client(shop_root, languages=strange)


class Unsaid(HTMLParser):
    """Collects the texts of a page outside the brackets."""

    def __init__(self):
        super().__init__()
        self.found = []
        self._depth = 0
        self._inside = []

    def handle_starttag(self, tag, attrs):
        is_english = tag != "html" and "lang" in dict(attrs)
        if is_english or tag in {"code", "kbd", "pre", "script", "time", "textarea"}:
            self._inside.append(tag)
        for name, value in attrs:
            if name in {"title", "aria-label", "placeholder", "alt", "data-ago"} and value:
                outside = self._outside(value, 0)[0]
                self.found += [outside] if outside.strip() else []

    def handle_endtag(self, tag):
        if tag in self._inside:
            self._inside.remove(tag)

    def handle_data(self, data):
        outside, self._depth = self._outside(data, self._depth)
        if not self._inside and outside.strip():
            self.found.append(outside.strip())

    @staticmethod
    def _outside(text, depth):
        kept = ""
        for one in BRACKETS.split(text):
            depth += one == OPEN
            kept += one if not depth else ""
            depth -= one == SHUT
        return kept, depth


def unsaid(page):
    found = Unsaid()
    found.feed(page)
    return found.found


ADDRESSES = (
    *(f"{page.path}?{PARAMETERS.get(page.path, '')}" for page in PAGES if not page.is_action),
    *(
        "/queue?queue=billing&state=unacked",
        "/queue?queue=nowhere",
        "/queues?show=dead&name=nowhere",
    ),
    *(
        "/message?id=0/0/2&body=hex",
        "/find?q=order",
        "/search?queue=nowhere",
        "/causes?by_header=x",
    ),
    *(
        "/redrive/plan?queue=billing",
        "/redrive?id=bad",
        "/topology?around=mail",
        "/exchanges?name=nowhere",
    ),
    *("/audit?message=0/0/2", "/goto?q=b", "/goto?q=nowhere", "/nowhere", "/health?as_of=soon"),
)
NO_TEXTS = {
    word
    for line in (
        "dlx direct fanout topic headers classic dead_letter_exchange overflow drop-head",
        "reject-publish message_ttl_ms max_length guest editor absent x-dead-letter-exchange",
        "routing_key quorum x-message-ttl x-overflow x-max-length queue header x message_id",
        "snapshots messages events dead_letters queue_contents quarantine snapshot_contents",
        "search_keys body what name source destination_type arguments type declaration durable",
        "auto_delete internal alternate_exchange true false code NOT_FOUND topic_number partition",
        "offset timestamp csv jsonl parquet hex json raw live SQL NAME VALUE",
        "LIKE eu tenant attempt decode replace eur EUR priority expiration",
        "billing mail dead box orders missing order line anna clerk dlx.publishes bill.eu mail.eu",
        "cash.eu bill first same acme nowhere arrow amq.direct amq.fanout amq.headers amq.match",
        "amq.topic n x07é",
        " ".join(alert_names()),
    )
    for word in line.split()
}
"""Names that are the same in every language."""


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_word_that_people_read_can_be_translated(in_strange, address):
    answer = in_strange.get(address)
    if "text/html" not in answer.headers["content-type"]:
        return

    words = {word for text in unsaid(answer.text) for word in WORD.findall(text)}
    assert words - NO_TEXTS == set()


@pytest.fixture(scope="module")
def eventful(tmp_path_factory):
    """The folder of tables in which nearly everything happened."""
    return write_eventful(tmp_path_factory.mktemp("eventful") / "tables")


@pytest.fixture(scope="module")
def eventful_in_strange(make_client, eventful, strange):
    """The console of those tables in the strange language."""
    return make_client(eventful, languages=strange)


@pytest.mark.parametrize("address", EVENTFUL)
def test_every_word_about_what_happened_can_be_translated(eventful_in_strange, address):
    answer = eventful_in_strange.get(address)

    words = {word for text in unsaid(answer.text) for word in WORD.findall(text)}
    assert answer.status_code in {200, 202}
    assert {word for word in words - NO_TEXTS if not word.startswith(("z_", "r-"))} == set()


def test_no_german_page_has_an_english_text(make_client, shop_console, eventful):
    english = {
        one.id: one.string
        for one in messages(FOLDER / "de.po")
        if isinstance(one.id, str) and one.id != one.string and not VALUES.search(one.id)
    }
    left = {}
    for client, addresses in ((shop_console, ADDRESSES), (make_client(eventful), EVENTFUL)):
        for address in addresses:
            answer = client.get(address, headers={"accept-language": "de"})
            if "text/html" in answer.headers["content-type"]:
                assert '<html lang="de">' in answer.text
                left[address] = english.keys() & {*unsaid(answer.text)} - GERMAN

    assert {address: texts for address, texts in left.items() if texts} == {}


def test_what_a_form_answers_can_be_translated(in_strange, state_home):
    document = '{"queues": [{"name": "new", "vhost": "/", "durable": true}]}'
    forms = {
        "/definitions/plan": {"vhost": "/", "document": document},
        "/redrive/seal?queue=dead": {},
        "/redrive/approve?id=r-123456789012": {"reason": ""},
        "/search/save": {"name": ""},
    }
    for address, form in forms.items():
        page = in_strange.post(address, headers=ORIGIN, data=form).text
        words = {word for text in unsaid(page) for word in WORD.findall(text)}
        assert words - NO_TEXTS - {"new"} == set(), address


FAULTY = (
    "[]",
    '{"queues": 5}',
    '{"queues": [1, {"vhost": "/"}, {"name": 2}], "exchanges": [{"name": "n", "type": "fanou"}]}',
    """{"vhosts": [{"name": "/"}], "queues": [
        {"name": "a", "vhost": "/", "durable": "yes", "arguments": {"x-max-length": -1}},
        {"name": "b", "vhost": "/", "arguments": {"x-max-length": "1", "x-overflow": "drop"}},
        {"name": "c", "vhost": "/", "arguments": {"x-queue-type": "quorum", "x-max-priority": 1}},
        {"name": "d", "vhost": "/", "durable": false, "arguments": {"x-queue-type": "quorum"}},
        {"name": "e", "vhost": "/", "arguments": {"x-expires": 0}},
        {"name": "f", "vhost": "/", "arguments": {"x-message-ttl": 999999999999}},
        {"name": "g", "vhost": "/", "arguments": {"x-dead-letter-routing-key": "n"}},
        {"name": "h", "vhost": "/", "arguments": {"x-dead-letter-exchange": [1]}},
        {"name": "i", "vhost": "/"}, {"name": "i", "vhost": "/", "durable": false},
        {"name": "", "vhost": "/"}, {"name": "amq.n", "vhost": "/"},
        {"name": "n", "vhost": "n"}],
      "exchanges": [{"name": "j", "vhost": "/", "arguments": {"alternate-exchange": 1}},
        {"name": "k", "vhost": "/", "type": "topic"}],
      "bindings": [{"source": "nowhere", "vhost": "/", "destination": "j"},
        {"source": "k", "vhost": "/", "destination": "i", "destination_type": "queu"},
        {"source": "amq.headers", "vhost": "/", "destination": "i", "arguments": {"x-match": 1}},
        {"source": "k", "vhost": "/", "destination": "i", "routing_key":
         "#.#.#.#.#.#.#.#.#.#.#"}],
      "policies": [{"name": "n", "vhost": "/", "pattern": "(", "definition": {}},
        {"name": "n", "vhost": "/", "pattern": "(?=n)", "definition": {"n": 1, "max-length": {}},
         "apply-to": "queue"}],
      "permissions": [{"user": "n", "vhost": "/", "configure": "["}]}""",
    """{"queues": [{"name": "n", "arguments": {"n": 1}}, {"name": "q", "type": "stream"}, {"name":
      "n", "arguments": {"n": 1}}, {"name": "n", "exclusive": true}, {"name": "m", "n": 1}],
      "exchanges": [{"name": "amq.direct"}, {"name": "amq.n"}, {"name": "x", "type": "x-n"}],
      "bindings": [{"source": "x", "destination": "n"}, {"source": "", "destination": "n"},
        {"source": "amq.direct", "destination": "q"}],
      "policies": [{"name": "n", "pattern": "n", "definition": {"n": 1}},
        {"name": "m", "pattern": "n", "definition": {"ha-mode": "all"}}],
      "parameters": [{"name": "n", "component": "shovel", "value": {}}],
      "global_parameters": [{"name": "n"}], "n": 1}""",
)
QUOTED = re.compile(r"'[^']*'|&#39;.*?&#39;|\(did you mean .*?\)")


@pytest.mark.parametrize("document", FAULTY, ids=range(len(FAULTY)))
def test_every_problem_of_definitions_can_be_translated(in_strange, shop_console, document):
    page = in_strange.post(
        "/definitions/plan", headers=ORIGIN, data={"vhost": "/", "document": document}
    ).text

    found = Unsaid()
    found.feed(page.partition("<h1")[2])
    texts = [QUOTED.sub("", text) for text in found.found]
    assert page.count("<li>") > 0
    assert {word for text in texts for word in WORD.findall(text)} - NO_TEXTS == set()
    german = said_in_german(shop_console, document)
    assert english_left(german) == []


def said_in_german(client, document):
    data = {"vhost": "/", "document": document}
    headers = {**ORIGIN, "accept-language": "de"}
    return client.post("/definitions/plan", headers=headers, data=data).text


def english_left(page):
    """The English words that no German text has, in the problems of a page."""
    words = {"expected", "must", "not", "the", "is", "of", "no", "has", "than", "named"}
    listed = re.findall(r"<li><code>.*?</code>: (.*?)</li>", page)
    assert listed
    return [one for one in listed if words & {*WORD.findall(QUOTED.sub("", one))}]
