"""The console of the shop's tables, as a logged-in user."""

import functools
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from streaming.console.app import PAGES, make_app
from streaming.console.languages import Languages
from streaming.console.logins import Credentials, Guard, Logins, hash_password
from streaming.console.page import Console
from streaming.console.reader import Reader
from streaming.console.rendering import make_templates
from tests.unit.console.two_vhosts import write_two_vhosts

HOST = "127.0.0.1:9420"
SHARED = {"languages": Languages(), "templates": functools.cache(make_templates)}
"""Read and compiled once for all consoles, which takes longer than most pages."""


@pytest.fixture
def state_home(monkeypatch, tmp_path):
    """Plans and views of one test alone; returns their folder."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def make_client():
    """Makes a client of a console; without a guard it has logged in with a link."""

    def make(root, guard=None, **settings):
        tokens: list[str] = []
        guard = guard or Guard(frozenset({HOST}), logins=Logins(tokens.append))
        console = Console(Reader(str(root)), PAGES, **{**SHARED, **settings})
        client = open_clients.enter_context(
            TestClient(make_app(console, guard), base_url=f"http://{HOST}")
        )
        if tokens:
            assert client.get(f"/health?token={tokens[-1]}").status_code == 200
        return client

    with ExitStack() as open_clients:
        yield make


@pytest.fixture(scope="session")
def make_client_of_anna(make_client, tmp_path_factory):
    """Makes a client that logs in as anna with a password; she is a viewer unless told."""

    def make(root, role="viewer", **settings):
        file = tmp_path_factory.mktemp("users") / "users.toml"
        password = hash_password("secret")
        file.write_text(f'[users.anna]\npassword = "{password}"\nrole = "{role}"\n')
        guard = Guard(frozenset({HOST}), credentials=Credentials(file))
        client = make_client(root, guard, **settings)
        client.auth = ("anna", "secret")
        return client

    return make


@pytest.fixture(scope="session")
def two_vhosts(tmp_path_factory):
    """Tables of the vhost `/` with an open and a closed queue, and of another vhost."""
    return write_two_vhosts(tmp_path_factory.mktemp("vhosts") / "tables")


@pytest.fixture(scope="session")
def shop_console(make_client, shop_root):
    """The console of the shop."""
    return make_client(shop_root)
