"""Requests to the management API, and what RabbitMQ answered to them.

The conversation is in management.json. `python -m tests.recordings.management` asks a running
RabbitMQ 4.0 (`python -m tests.oracle start`) all of it again, in a vhost and with users of its own,
and renews the answers. Members whose values differ from run to run are not compared.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.oracle.nodes import VERSIONS

FILE: Final = Path(__file__).with_name("management.json")
VHOST: Final = "rec"
USERS: Final = ("mg-a", "mg-b", "mg-c", "mg-d", "mg-e", "mg-f", "mg-z")

_LARGEST: Final = 4_000
"""Longer answers are statistics and lists of features; of them only the status is kept."""


def conversation() -> list[dict[str, Any]]:
    """The requests, each with its answer."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
    return found


def headers_of(entry: dict[str, Any]) -> dict[str, str]:
    """The headers of a request."""
    headers = dict(entry.get("headers", {}))
    if entry["user"]:
        credentials = base64.b64encode(entry["user"].encode()).decode()
        headers["authorization"] = f"Basic {credentials}"
    if "body" in entry:
        headers["content-type"] = entry.get("type", "application/json")
    return headers


def _ask(base: str, entry: dict[str, Any]) -> httpx2.Response:
    """Ask on a connection of its own: RabbitMQ ends many without saying so."""
    body = entry.get("body")
    with httpx2.Client(trust_env=False, timeout=60) as client:
        return client.request(
            entry["method"],
            base + entry["path"],
            headers=headers_of(entry),
            content=None if body is None else body.encode(),
        )


def _clean(base: str) -> None:
    for path in [f"vhosts/{VHOST}", *(f"users/{name}" for name in USERS)]:
        _ask(base, {"method": "DELETE", "path": path, "user": "guest:guest"})


def main() -> None:
    """Ask everything again."""
    port = VERSIONS["4.0"].management_port
    entries = conversation()
    base = f"http://127.0.0.1:{port}/api/"
    _clean(base)
    for entry in entries:
        answer = _ask(base, entry)
        entry["status"] = answer.status_code
        entry.pop("answer", None)
        entry.pop("location", None)
        if "location" in answer.headers:
            entry["location"] = answer.headers["location"]
        if answer.content and len(answer.content) <= _LARGEST:
            entry["answer"] = answer.json()
    _clean(base)
    FILE.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n", "utf-8")
    sys.stdout.write(f"{len(entries)} answers\n")


if __name__ == "__main__":
    main()
