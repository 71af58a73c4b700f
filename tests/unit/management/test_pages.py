"""What is at the port of the API beside /api/."""

import pytest
from starlette.testclient import TestClient

from streaming.management.app import Management
from streaming.management.memory import MemoryFront


def _client(broker, console=None, base="http://localhost:15672"):
    management = Management(MemoryFront(broker), console=console)
    return TestClient(management, base, client=("127.0.0.1", 50_000), follow_redirects=False)


@pytest.mark.parametrize(
    ("console", "base", "place"),
    [
        (("127.0.0.1", 9420), "http://localhost:15672", "http://127.0.0.1:9420/"),
        (("::1", 9420), "http://localhost:15672", "http://[::1]:9420/"),
        (("0.0.0.0", 15673), "http://10.0.0.5:15672", "http://10.0.0.5:15673/"),  # noqa: S104
        ("https://dlx.example.com", "http://localhost:15672", "https://dlx.example.com"),
        (None, "http://localhost:15672", "/api/index.html"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/index.html"])
def test_the_root_leads_to_the_console_or_else_to_the_list_of_the_api(
    broker, console, base, place, path
):
    response = _client(broker, console, base).get(path)

    assert (response.status_code, response.headers["location"]) == (302, place)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "FOO"])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/api", "/api/index.html"),
        ("/api/", "/api/index.html"),
        ("/stats", "/api/index.html"),
        ("/doc/stats.html", "/api/index.html"),
        ("/mgmt", "/"),
        ("/mgmt/", "/"),
    ],
)
def test_some_paths_lead_on_whatever_the_method_is_as_in_rabbitmq(broker, method, path, place):
    response = _client(broker).request(method, path)

    assert (response.status_code, response.headers["location"]) == (301, place)


def test_the_list_of_the_api_needs_no_login_and_has_every_path(broker):
    response = _client(broker).get("/api/index.html")

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "<td>GET, PUT, DELETE</td><td><code>/api/queues/{vhost}/{queue}</code>" in response.text
    assert '<a href="http://localhost:9420/">' in response.text


def test_the_list_does_not_repeat_what_a_client_calls_the_host(broker):
    page = _client(broker).get("/api/index.html", headers={"host": 'x"><script>'})

    assert "<script>" not in page.text


def test_only_reading_is_possible_beside_the_api(client, broker):
    assert client.post("/").status_code == 405
    assert client.get("/nosuch").status_code == 404
    assert _client(broker).head("/api/index.html").content == b""


@pytest.mark.parametrize(
    "path", ["/api/shovels/%2f", "/api/no%5Csuch", "/api/nosuch%00", "/no%2Fx"]
)
def test_a_name_that_no_file_can_have_is_a_bad_request_as_in_rabbitmq(client, path):
    assert client.get(path).status_code == 400
