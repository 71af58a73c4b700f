"""Nothing that was in a message, a name or an address becomes markup, a query or another's data."""

import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from streaming.console.access import Credentials, Guard, hash_password
from tests.unit.console.conftest import HOST
from tests.unit.console.injections import INJECTIONS, MARK, attacked_tables

SECRET = "sealed-4711-secret"  # noqa: S105 - what must not be shown
LEAST = 500
TAGS = {"iframe", "object", "embed", "base", "img", "video", "style", "template", "math", "body"}
OWN = re.compile(r"(/(?!/)|#|\?|$)")
PLACES = (
    "/queues?name={}",
    "/queue?queue={}",
    "/search?queue={}",
    "/search?header={}",
    "/search?cause={}",
    "/search?where={}",
    "/causes?by_header={}",
    "/message?id={}",
    "/redrive?id={}",
    "/redrive/plan?routing_key={}",
    "/sql?sql={}",
    "/audit?user={}",
    "/audit?action=purges&message={}",
    "/?as_of={}",
    "/health?vhost={}",
    "/static/{}",
    "/{}",
)


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
def stranger(make_client, attacked, tmp_path_factory):
    """Asks as a viewer who has no permission anywhere."""
    file = tmp_path_factory.mktemp("users") / "users.toml"
    file.write_text(f'[users.anna]\npassword = "{hash_password("secret")}"\n')
    client = make_client(attacked, Guard(frozenset({HOST}), credentials=Credentials(file)))
    client.auth = ("anna", "secret")
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
        "/redrive/plan",
        "/audit",
        "/sql?sql=FROM+dead_letters",
        "/sql?sql=FROM+messages",
        *(f"/message?id=m{number}&body=json" for number in range(0, len(INJECTIONS), 40)),
    ],
)
def test_attacks_in_messages_and_names_are_shown_as_text(make_client, attacked, address):
    answer = make_client(attacked).get(address)

    assert answer.status_code == 200
    assert faults_of(answer.text) == []


def test_the_pages_do_show_the_attacks(make_client, attacked):
    assert (
        f"&lt;script&gt;{MARK}&lt;/script&gt;" in make_client(attacked).get("/search?page=6").text
    )


def test_an_attack_in_an_address_is_answered_as_text_and_shows_a_stranger_nothing(stranger):
    faults = {}
    for number, one in enumerate(INJECTIONS):
        path, _, query = PLACES[number % len(PLACES)].partition("?")
        name = query.rpartition("=")[0].rpartition("&")[2]
        if not query:
            answer = stranger.get(path.format(quote(one[:200])))
        else:
            answer = stranger.get(
                path, params={"action": "purges", name: one} if "&" in query else {name: one}
            )
        wrong = faults_of(answer.text) if "html" in answer.headers.get("content-type", "") else []
        if answer.status_code >= 500 or SECRET in answer.text or "root:" in answer.text or wrong:
            faults[path, one] = (answer.status_code, wrong)

    assert faults == {}


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"http://{HOST}.evil"])
@pytest.mark.parametrize("action", ["/redrive/seal", "/redrive/approve", "/redrive/control"])
def test_a_form_of_another_site_does_nothing(make_client, attacked, action, origin):
    headers = {} if origin is None else {"origin": origin}

    answer = make_client(attacked).post(f"{action}?id=r-000000000000", headers=headers)

    assert answer.status_code == 403
