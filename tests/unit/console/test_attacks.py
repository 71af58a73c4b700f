"""What three users of one console try: another vhost, a closed queue, a role, a name of theirs.

Anna may only see, Olga operates and Edda edits; each may read the queues of `/` that begin with
`open`. Messages of the others hold TREASURE.
"""

import io
import re

import pyarrow.csv
import pyarrow.parquet
import pytest
from starlette.testclient import TestClient

from streaming.console.app import PAGES, make_app
from streaming.console.logins import Credentials, Guard, Logins, hash_password
from streaming.console.page import Console
from streaming.console.reader import Reader
from tests.unit.console.conftest import HOST
from tests.unit.console.two_vhosts import TREASURE

pytestmark = pytest.mark.usefixtures("state_home")

ORIGIN = {"origin": f"http://{HOST}"}
ROLES = {"anna": "viewer", "olga": "operator", "edda": "editor", "root": "editor"}


@pytest.fixture(scope="module")
def client(make_client, two_vhosts, tmp_path_factory):
    """A client of one console for all of them; root administers."""
    password = hash_password("secret")
    file = tmp_path_factory.mktemp("users") / "users.toml"
    file.write_text(
        "".join(
            f'[users.{name}]\npassword = "{password}"\nrole = "{role}"\n'
            f"administrator = {str(name == 'root').lower()}\n"
            for name, role in ROLES.items()
        )
    )
    return make_client(two_vhosts, Guard(frozenset({HOST}), credentials=Credentials(file)))


@pytest.fixture(scope="module")
def ask(client):
    """Asks as a user; with a form it is sent from a page of the console."""

    def request(user, address, form=None, **more):
        method = "GET" if form is None else "POST"
        more = {"headers": ORIGIN, **more}
        return client.request(method, address, auth=(user, "secret"), data=form, **more)

    return request


def is_clean(answer):
    return TREASURE.encode() not in answer.content and b"vault" not in answer.content


@pytest.mark.parametrize("user", ["anna", "olga", "edda"])
@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/queues?vhost=/&vhost=vault-v", 404),
        ("/queues?vhost=vault-v%00", 404),
        ("/queues?vhost=%20vault-v", 404),
        ("/queues?vhost=VAULT-V", 404),
        ("/queues?vhost=/'+OR+vhost+LIKE+'vault%25", 404),
        ("/queue?queue=closed&vhost=/&as_of=0", 200),
        ("/queue?queue=closed-dead&vhost=/&as_of=0&state=unacked", 200),
        ("/message?id=closed-m&as_of=0", 403),
        ("/message/body?id=closed-m&as_of=0", 403),
        ("/message/scenario?id=closed-m&as_of=0", 403),
        ("/message/body?id=vault-m", 400),
        ("/message/scenario?id=0/0/500", 400),
        ("/search?where=1=1", 403),
        ("/search/export?format=jsonl&where=1=1", 403),
        ("/search?cause_sql=decode(body)&where=", 200),
        ("/search?header=vault-h')+OR+('1'='1", 200),
        ("/causes?by_header=n')+AS+x,+decode(body)+AS+y,+('", 200),
        ("/sql?sql=FROM+read_text('/etc/passwd')", 403),
        ("/sql/export?sql=FROM+messages&format=csv", 403),
        ("/changes?queue=closed-dead&vhost=/&from=0&to=1", 403),
        ("/topology?vhost=/&around=vault", 200),
        ("/topology/changes?vhost=vault-v&compared_with=0", 404),
        ("/topology/changes?vhost=/&compared_with=0/0/500", 400),
        ("/audit?message=0/0/500", 200),
        ("/audit?user=vault-u&vhost=vault-v", 404),
        ("/redrive?id=../../etc/passwd", 400),
    ],
)
def test_what_a_user_may_not_see_is_not_in_the_answer(ask, user, address, status):
    answer = ask(user, address)

    assert answer.status_code == status
    text = answer.text.replace("VAULT", "").replace("vault", "", address.count("vault") * 40)
    assert TREASURE not in text
    if "vault" not in address:
        assert is_clean(answer)


def test_a_message_of_another_vhost_is_no_instant(ask):
    hidden = ask("anna", "/queues?as_of=0/0/500").text
    unknown = ask("anna", "/queues?as_of=0/0/999").text

    assert "the tables have no message" in hidden
    assert hidden.replace("0/0/500", "0/0/999").replace("%2F500", "%2F999") == unknown
    for end in ("from", "to"):
        answer = ask("anna", f"/changes?queue=open&vhost=/&{end}=0/0/500")
        assert "the tables have no message" in answer.text
    assert ask("root", "/queues?as_of=0/0/500").status_code == 200
    assert ask("anna", "/queues?as_of=0/0/0").status_code == 200


def test_a_page_of_an_administrator_is_not_shown_to_another_user(ask):
    for address in ("/search", "/causes?by=queue,cause", "/queue?queue=closed&vhost=/", "/audit"):
        ask("root", address)
        assert is_clean(ask("anna", address))


def test_an_exported_parquet_or_csv_file_has_nothing_hidden(ask):
    parquet = pyarrow.parquet.read_table(
        io.BytesIO(ask("anna", "/search/export?format=parquet").content)
    )
    table = pyarrow.csv.read_csv(io.BytesIO(ask("anna", "/search/export?format=csv").content))

    assert parquet.num_rows == table.num_rows == 1
    assert TREASURE not in str(parquet.to_pylist())
    assert "vault" not in str([*parquet.to_pylist(), *table.to_pylist()])
    assert parquet["queue"].to_pylist() == ["open"]


@pytest.mark.parametrize("action", [page.path for page in PAGES if page.role != "viewer"])
def test_a_viewer_becomes_nothing_else_by_what_is_sent(ask, action):
    more = {"headers": {**ORIGIN, "x-role": "editor", "x-http-method-override": "GET"}}

    answer = ask("anna", f"{action}?role=editor&user=root", {"role": "editor"}, **more)

    assert answer.status_code == 403
    assert "needs the role operator" in answer.text


def test_an_operator_cannot_edit(ask, tmp_path):
    for field in ("content", "set_headers", "body_sql", "set_properties"):
        form = {field: '{"a": 1}', "properties": "{}", "headers": "{}", "role": "editor"}
        answer = ask("olga", "/redrive/seal?queue=open", form)
        if answer.status_code != 403:
            assert "are edited" not in answer.text
            assert "letter is edited" not in answer.text

    assert list(tmp_path.rglob("*edits*")) == []


def test_the_edits_of_a_plan_are_shown_to_users_who_may_read_its_letters(ask):
    edit = {"content": "yes", "properties": '{"priority": 5}', "headers": "{}", "body": "x"}
    for queue, is_shown in (("closed", False), ("open", True)):
        sealed = ask("root", f"/redrive/seal?queue={queue}&vhost=/", edit)
        address = f"/redrive?id={sealed.url.params['id']}"
        assert "-body" in sealed.text or "priority" in sealed.text

        shown = ask("anna", address)

        assert ("priority" in shown.text) is is_shown
        assert TREASURE not in shown.text


def test_a_plan_of_another_vhost_does_not_exist(ask):
    plan = ask("root", "/redrive/seal?queue=vault-q&vhost=vault-v", {}).url.params["id"]

    answers = [
        ask("edda", f"/redrive?id={plan}"),
        ask("edda", f"/redrive/approve?id={plan}", {"reason": "why"}),
        ask("edda", f"/redrive/control?id={plan}", {"reason": "why", "action": "pause"}),
    ]
    assert [one.status_code for one in answers] == [404, 404, 400]
    assert not any("vault" in one.text for one in answers)


def test_an_import_is_not_planned_for_another_vhost(ask):
    document = '{"queues": [{"name": "vault-q", "vhost": "vault-v", "arguments": {}}]}'

    assert ask("edda", "/definitions/plan", {"vhost": "vault-v"}).status_code == 404
    answer = ask("edda", "/definitions/plan", {"vhost": "/", "document": document})
    assert "vault" not in answer.text


def test_saved_views_are_of_one_user_and_lead_to_the_search_alone(ask):
    ask("edda", "/search/save?queue=//evil.example&vhost=/", {"name": "'; DROP TABLE x;--"})

    own = ask("edda", "/search").text
    assert "DROP TABLE" in own
    assert re.findall(r'href="([^"]*evil[^"]*)"', own) == [
        "/search?vhost=%2F&amp;queue=%2F%2Fevil.example"
    ]
    assert "DROP TABLE" not in ask("anna", "/search").text
    ask("anna", "/search/forget", {"name": "'; DROP TABLE x;--"})
    assert "DROP TABLE" in ask("edda", "/search").text


def test_how_much_there_is_of_all_vhosts_is_for_administrators(ask):
    assert "Copies in queues" in ask("root", "/health").text
    shown = ask("anna", "/health").text
    assert "Copies in queues" not in shown
    assert "Rows" not in shown


@pytest.mark.parametrize("path", ["//evil.example/x", "///evil.example", "/%2F/evil.example"])
def test_no_link_leads_to_another_site(client, path):
    answer = client.request("GET", f"http://{HOST}{path}", auth=("anna", "secret"))

    assert answer.status_code == 404
    assert not re.findall(r'(?:href|action|hx-get|src)="//', answer.text)


def test_a_link_that_logs_in_leads_to_the_console_alone(two_vhosts):
    tokens: list[str] = []
    guard = Guard(frozenset({HOST}), logins=Logins(tokens.append))
    app = make_app(Console(Reader(two_vhosts), PAGES), guard)
    linked = TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)

    answer = linked.get(f"http://{HOST}//evil.example/?token={tokens[0]}")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/evil.example/"


@pytest.mark.parametrize(
    "authorization",
    [
        "Basic",
        "Basic YW5uYQ==",
        "Basic OnNlY3JldA==",
        "Bearer secret",
        "Basic cm9vdDo=",
        "x" * 9_000,
    ],
)
def test_a_header_that_names_no_user_is_refused(client, authorization):
    for address in ("/", "/events", "/search/export?format=csv"):
        answer = client.get(address, headers={"authorization": authorization})
        assert answer.status_code == 401
        assert is_clean(answer)


@pytest.mark.parametrize("host", ["root@127.0.0.1:9420", f"{HOST}/", f"{HOST},{HOST}", "[::1]"])
def test_a_host_that_only_looks_like_the_console_is_refused(client, host):
    answer = client.get("/", headers={"host": host, "x-forwarded-host": HOST})

    assert answer.status_code == 421


PROXY_SECRET = "0123456789abcdef"  # noqa: S105 - of the test


@pytest.fixture
def behind_proxy(two_vhosts):
    """A console behind a proxy on this machine, which names the user."""
    guard = Guard(
        frozenset({HOST}),
        user_header="x-user",
        proxies=frozenset({"testclient"}),
        proxy_secret=PROXY_SECRET,
    )
    client = TestClient(make_app(Console(Reader(two_vhosts), PAGES), guard), f"http://{HOST}")
    client.headers["x-dlx-proxy-secret"] = PROXY_SECRET
    return client


def test_a_proxy_names_the_user_once(behind_proxy):
    named = behind_proxy.get("/health", headers=[("x-user", "anna")])
    assert (named.status_code, "anna, viewer" in named.text) == (200, True)
    for headers in (
        [("x-user", "root"), ("x-user", "anna")],
        [("x_user", "root")],
        [("x-user", "")],
        [("x-forwarded-user", "root")],
    ):
        assert behind_proxy.get("/health", headers=headers).status_code == 401


@pytest.mark.parametrize("secret", ["", "0123456789abcdeg", PROXY_SECRET + "0", "é" * 16])
def test_a_program_without_the_secret_of_the_proxy_names_nobody(behind_proxy, secret):
    headers = {"x-user": "anna", "x-dlx-proxy-secret": secret.encode()}

    assert behind_proxy.get("/health", headers=headers).status_code == 401
    del behind_proxy.headers["x-dlx-proxy-secret"]
    assert behind_proxy.get("/health", headers={"x-user": "anna"}).status_code == 401
    twice = [("x-user", "anna"), *[("x-dlx-proxy-secret", PROXY_SECRET)] * 2]
    assert behind_proxy.get("/health", headers=twice).status_code == 401


def test_a_header_does_not_choose_the_role_unless_it_is_configured(behind_proxy):
    answer = behind_proxy.get("/health", headers=[("x-user", "anna"), ("x-role", "editor")])

    assert "anna, viewer" in answer.text


def test_a_user_named_like_a_file_keeps_views_in_their_own(behind_proxy, tmp_path):
    headers = {"x-user": "../../anna", **ORIGIN}

    behind_proxy.post("/search/save", headers=headers, data={"name": "mine"})

    kept = [one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*.json")]
    assert [bool(re.fullmatch(r".*console/[0-9a-f]{32}\.json", one)) for one in kept] in (
        [],
        [True],
    )
