"""Every address of the application has its guard: who may come in, from where, as what."""

import asyncio
import re

import pytest
from starlette.routing import Mount, Route

from streaming.console.app import PAGES, make_app
from streaming.console.live import Live
from streaming.console.logins import Credentials, Guard, Logins, hash_password
from streaming.console.page import Console
from streaming.console.reader import Reader
from tests.unit.console.addresses import ORIGIN
from tests.unit.console.conftest import HOST

pytestmark = pytest.mark.usefixtures("state_home")

BESIDE_PAGES = {"/static", "/events", "/logout"}
OF_VIEWERS = {"/definitions/plan", "/search/save", "/search/forget"}
"""Actions of every user: they change nothing but the user's own views."""

FOREIGN: tuple[dict[str, str], ...] = (
    {},
    {"origin": "null"},
    {"origin": "http://evil.example"},
    {"origin": f"http://{HOST}.evil.example"},
    {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"},
    {"referer": f"http://{HOST}/"},
)
ROLES = ("viewer", "operator", "editor")


@pytest.fixture(scope="module")
def routes(shop_root):
    """The addresses of the application, with their methods; a folder of files has GET."""
    guard = Guard(frozenset({HOST}), logins=Logins(lambda _token: None))
    app = make_app(Console(Reader(shop_root), PAGES), guard)
    found = {}
    for one in app.routes:
        assert isinstance(one, Route | Mount)
        methods = {"GET"} if isinstance(one, Mount) else set(one.methods or ())
        found[one.path] = methods - {"HEAD"}
    return found


@pytest.fixture(scope="module")
def as_role(make_client, shop_root, tmp_path_factory):
    """Makes a client of an administrator with a role."""
    file = tmp_path_factory.mktemp("users") / "users.toml"
    password = hash_password("secret")
    file.write_text(
        "".join(
            f'[users.{role}]\npassword = "{password}"\nrole = "{role}"\nadministrator = true\n'
            for role in ROLES
        )
    )

    def make(role, **settings):
        guard = Guard(frozenset({HOST}), credentials=Credentials(file))
        client = make_client(shop_root, guard, **settings)
        client.auth = (role, "secret")
        return client

    return make


def test_the_addresses_are_pages_files_events_and_the_end_of_a_session(routes):
    assert set(routes) == {page.path for page in PAGES} | BESIDE_PAGES
    assert {path for path, methods in routes.items() if methods != {"GET"}} == {
        page.path for page in PAGES if page.is_action
    } | {"/logout"}
    assert all(methods in ({"GET"}, {"POST"}) for methods in routes.values())


def test_a_stranger_gets_nothing_but_files(routes, make_client, make_client_of_anna, shop_root):
    by_link, by_password = make_client(shop_root), make_client_of_anna(shop_root)
    by_link.cookies.clear()
    by_password.auth = None
    for client in (by_link, by_password):
        for path, methods in routes.items():
            for method in methods:
                answer = client.request(method, path, headers=ORIGIN, follow_redirects=False)
                assert answer.status_code == 401, path
        assert client.get("/static/console.css").status_code == 200
        assert client.get("/static/../app.py").status_code in {401, 404}
        assert client.post("/static/console.css", headers=ORIGIN).status_code == 405


@pytest.mark.parametrize("headers", FOREIGN)
def test_no_action_is_accepted_from_another_site(routes, as_role, tmp_path, headers):
    client = as_role("editor")
    for path, methods in routes.items():
        for method in {"POST", "PUT", "DELETE", "PATCH"} | (methods - {"GET"}):
            data = {"name": "x", "reason": "x", "action": "cancel"}
            answer = client.request(method, path, headers=headers, data=data)
            assert answer.status_code == 403, (method, path)

    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_an_action_cannot_be_opened_and_a_page_takes_no_form(routes, as_role):
    client = as_role("editor")
    for path, methods in routes.items():
        other = "POST" if methods == {"GET"} else "GET"
        assert client.request(other, path, headers=ORIGIN).status_code == 405, path


def test_an_action_that_changes_the_job_needs_its_role_and_a_console_that_acts(as_role):
    actions = [page for page in PAGES if page.is_action]
    assert {page.path for page in actions if page.role == "viewer"} == OF_VIEWERS
    viewer, reading = as_role("viewer"), as_role("editor", is_read_only=True)

    for page in actions:
        refused = {
            one.post(page.path, headers=ORIGIN, data={"reason": "why"}).status_code == 403
            for one in (viewer, reading)
        }
        assert refused == {page.role != "viewer"}, page.path


def test_the_events_tell_the_number_of_a_batch_and_its_age_and_nothing_else(shop_root):
    async def told():
        live = Live(Reader(shop_root))
        found = []
        async for said in live.stream(None):
            found.append(said)
            if "event" in said:
                break
        await live.close()
        return found

    first, second = asyncio.run(told())
    assert first == "retry: 1000\n\n"
    assert re.fullmatch(r'id: 1\nevent: batch\ndata: {"batch": 1, "age_s": \d{8,}}\n\n', second)
