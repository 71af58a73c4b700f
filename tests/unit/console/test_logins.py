"""Who gets into the console, from where, and what each role and user may see and do."""

import pytest
from starlette.testclient import TestClient

from streaming.console.app import PAGES, make_app
from streaming.console.logins import (
    COOKIE,
    Credentials,
    Guard,
    Logins,
    LoginsError,
    hash_password,
    read_proxy_secret,
)
from streaming.console.page import Console
from streaming.console.reader import Reader
from streaming.console.rights import User

HOST = "127.0.0.1:9420"
HOSTS = frozenset({HOST})


@pytest.fixture
def linked(shop_root):
    """A console that is entered with a link: its client, and the tokens that it announced."""
    tokens: list[str] = []
    guard = Guard(HOSTS, logins=Logins(tokens.append))
    app = make_app(Console(Reader(shop_root), PAGES), guard)
    return TestClient(app, base_url=f"http://{HOST}", follow_redirects=False), tokens


def session_of(client):
    [name] = [name for name in client.cookies if name.startswith(COOKIE)]
    return name, client.cookies[name]


def test_a_link_logs_in_once_and_leaves_the_address(linked):
    client, tokens = linked

    answer = client.get(f"/health?as_of=0&token={tokens[0]}")

    assert (answer.status_code, answer.headers["location"]) == (303, "/health?as_of=0")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(COOKIE)
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/health").status_code == 200


def test_a_used_link_is_refused_and_a_new_one_is_announced(linked):
    client, tokens = linked
    client.get(f"/health?token={tokens[0]}")
    client.cookies.clear()

    assert client.get(f"/health?token={tokens[0]}").status_code == 403
    assert client.get("/health").status_code == 401
    assert len(tokens) == 2
    assert client.get(f"/health?token={tokens[1]}").status_code == 303


def test_two_consoles_of_one_host_do_not_log_each_other_out(shop_root):
    cookies: dict[str, str] = {}
    consoles = []
    for port in (9420, 9421):
        tokens: list[str] = []
        host = f"127.0.0.1:{port}"
        guard = Guard(frozenset({host}), logins=Logins(tokens.append), place=f"here {port}")
        app = make_app(Console(Reader(shop_root), PAGES), guard)
        client = TestClient(app, base_url=f"http://{host}")
        client.cookies.update(cookies)  # a browser sends them to every port
        client.get(f"/health?token={tokens[0]}")
        cookies.update(client.cookies)
        consoles.append(client)

    for client in consoles:
        client.cookies.update(cookies)
        assert client.get("/health").status_code == 200
    assert len(cookies) == 2


def test_logging_out_ends_the_session_on_the_server(linked):
    client, tokens = linked
    client.get(f"/?token={tokens[0]}")
    name, session = session_of(client)

    client.post("/logout", headers={"origin": f"http://{HOST}"})
    client.cookies.clear()

    client.cookies.set(name, session)

    assert client.get("/health").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"{HOST}.evil.example", ""])
def test_another_host_is_not_answered(linked, host):
    client, tokens = linked

    answer = client.get(f"/health?token={tokens[0]}", headers={"host": host})

    assert answer.status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"},
        {"origin": f"http://{HOST}.evil.example"},
    ],
)
def test_an_action_from_elsewhere_is_refused(linked, headers):
    client, tokens = linked
    client.get(f"/?token={tokens[0]}")

    assert client.post("/logout", headers=headers).status_code == 403
    assert client.get("/health").status_code == 200


def test_every_response_has_a_strict_policy(linked):
    client, tokens = linked
    for path in ("/health", f"/?token={tokens[0]}", "/health", "/nothing", "/static/console.css"):
        headers = client.get(path).headers

        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY"


def credentials(folder, **users):
    path = folder / "console.toml"
    path.write_text(
        "".join(
            f'[users.{name}]\npassword = "{hash_password(name)}"\n{more}\n'
            for name, more in users.items()
        )
    )
    return path


def test_users_of_a_file_log_in_with_their_passwords(make_client, shop_root, tmp_path):
    file = credentials(tmp_path, anna='role = "operator"\nadministrator = true', bert="")
    client = make_client(shop_root, Guard(HOSTS, credentials=Credentials(file)))

    refused = client.get("/health")
    assert (refused.status_code, refused.headers["www-authenticate"][:5]) == (401, "Basic")
    assert client.get("/health", auth=("anna", "wrong")).status_code == 401
    assert client.get("/health", auth=("nobody", "anna")).status_code == 401
    assert "anna, operator" in client.get("/health", auth=("anna", "anna")).text
    assert "bert, viewer" in client.get("/health", auth=("bert", "bert")).text


def test_a_user_without_permissions_in_a_vhost_sees_nothing_of_it(make_client, shop_root, tmp_path):
    file = credentials(tmp_path, bert="")
    client = make_client(shop_root, Guard(HOSTS, credentials=Credentials(file)))
    client.auth = ("bert", "bert")

    assert "billing" not in client.get("/queues").text
    assert client.get("/queue?queue=billing&vhost=/").status_code == 404
    assert client.get("/queues?vhost=/").status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[users]",
        "[users.anna]\npassword = 'plain'",
        "[users.anna]\npassword = 1",
        "[users.anna]\npassword = 'x'\nrole = 'king'",
        "not toml",
    ],
)
def test_a_file_of_credentials_that_cannot_be_used_is_refused(tmp_path, text):
    path = tmp_path / "console.toml"
    path.write_text(text)

    with pytest.raises(LoginsError) as refused:
        Credentials(path)

    assert str(path) in str(refused.value)


def test_a_proxy_on_this_machine_names_the_user_and_the_role(shop_root):
    secret = "of the proxy, 16"  # noqa: S105 - of the test
    guard = Guard(HOSTS, user_header="x-user", role_header="x-role", proxy_secret=secret)
    near = TestClient(make_app(Console(Reader(shop_root), PAGES), guard), f"http://{HOST}")

    known = {"x-dlx-proxy-secret": secret}
    editor = guard.user({**known, "x-user": "anna", "x-role": "editor"}, {}, "127.0.0.1")
    unknown = guard.user({**known, "x-user": "anna", "x-role": "king"}, {}, "127.0.0.1")

    assert editor == User("anna", "editor")
    assert unknown == User("anna", "viewer")
    assert guard.user({"x-user": "anna"}, {}, "127.0.0.1") is None
    assert guard.user({**known, "x-user": "anna"}, {}, "10.0.0.9") is None
    headers = {**known, "x-user": "anna"}
    assert near.get("/health", headers=headers).status_code == 401  # from "testclient"


@pytest.mark.parametrize("text", ["", "short", "x" * 15 + "\n", "é" * 16, None])
def test_a_secret_of_a_proxy_that_cannot_be_used_is_refused(tmp_path, text):
    path = tmp_path / "proxy.secret"
    if text is not None:
        path.write_text(text)

    with pytest.raises(LoginsError) as refused:
        read_proxy_secret(path)

    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("headers", "may"),
    [
        ({}, True),  # curl
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),  # typed, or a bookmark
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"referer": f"http://{HOST}/search"}, True),
        ({"referer": "http://evil.example/"}, False),
        ({"referer": f"http://evil.example/{HOST}"}, False),
        ({"user-agent": "Mozilla/5.0"}, False),
        ({"user-agent": "Mozilla/5.0", "referer": f"http://{HOST}/"}, True),
        ({"user-agent": "Mozilla/5.0", "sec-fetch-site": "none"}, True),
    ],
)
def test_a_request_is_told_from_one_of_another_site(headers, may):
    guard = Guard(HOSTS, logins=Logins(lambda _token: None))

    assert guard.may_be_own_page({"host": HOST, **headers}) is may
