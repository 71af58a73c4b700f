"""`/api/dlx` of a front beside tables, in an event loop of the test."""

import asyncio
from typing import Any

import httpx2
from jsonschema import Draft202012Validator

from streaming.config.secrets import SecretText
from streaming.dlx_api.asking import Settings
from streaming.dlx_api.openapi import document
from streaming.dlx_api.questions import QUESTIONS
from streaming.dlx_api.reading import Readers
from streaming.dlx_api.resources import dlx_resources
from streaming.management.app import Management
from tests.management_api import GUEST

DOCUMENT: Any = document()
SECRETS: dict[str, str] = {"aws_secret_access_key": SecretText("as of tables in S3")}


class DlxApi:
    """A client of the API of a front.

    Args:
        tables: the folder of the tables; None: there are none.

    Attributes:
        asked: the operations that were answered, as `METHOD /path` of the document.
    """

    def __init__(self, front: Any, tables: str | None = None) -> None:
        self.front = front
        self.asked: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self.readers = None if tables is None else Readers(Settings(tables, SECRETS))
        self.management = Management(front, more=dlx_resources(self.readers))
        transport = httpx2.ASGITransport(app=self.management, client=("127.0.0.1", 50_000))
        self._client = httpx2.AsyncClient(transport=transport, base_url="http://dlx", timeout=60)

    def close(self) -> None:
        """End the processes."""
        if self.readers is not None:
            self.run(self.readers.stop())
        self.run(self._client.aclose())
        self._loop.close()

    def run(self, coroutine: Any) -> Any:
        """Run something in the event loop of the front."""
        return self._loop.run_until_complete(coroutine)

    async def sent(
        self, method: str, path: str, body: Any = None, user: Any = GUEST, **rest: Any
    ) -> Any:
        """The response to a request below /api/."""
        json = {} if body is None else {"json": body}
        return await self._client.request(method, f"/api/{path}", auth=user, **json, **rest)

    def ask(self, method: str, path: str, body: Any = None, user: Any = GUEST, **rest: Any) -> Any:
        """The same, from outside of the event loop."""
        return self.run(self.sent(method, path, body, user, **rest))

    def get(self, path: str, user: Any = GUEST, **query: Any) -> Any:
        """The document at a path below /api/dlx/, which is as the OpenAPI document says."""
        return self.answer("GET", path, None, user, query)

    def post(self, path: str, body: Any, user: Any = GUEST) -> Any:
        """What a POST answers, likewise."""
        return self.answer("POST", path, body, user, {})

    def answer(self, method: str, path: str, body: Any, user: Any, query: Any) -> Any:
        """See `get`."""
        response = self.ask(method, f"dlx/{path}", body, user, params=query)
        assert response.status_code == 200, response.text
        self.checked(method, path, response)
        return response.json()

    def refusal(
        self, path: str, user: Any = GUEST, method: str = "GET", body: Any = None, **query: Any
    ) -> tuple[int, str, str]:
        """Status, error and reason of a request that is refused, as the document says it."""
        response = self.ask(method, f"dlx/{path}", body, user, params=query)
        assert response.status_code >= 400, response.text
        self.checked(method, path, response)
        found = response.json()
        return response.status_code, found["error"], found["reason"]

    def checked(self, method: str, path: str, response: Any) -> None:
        """Check a response against the document."""
        template = template_of(path)
        operation = DOCUMENT["paths"][template][method.lower()]
        said = operation["responses"][str(response.status_code)]
        assert response.headers["content-type"] == "application/json"
        schema = said["content"]["application/json"]["schema"]
        whole = {**schema, "components": DOCUMENT["components"]}
        faults = list(Draft202012Validator(whole).iter_errors(response.json()))
        assert not faults, faults[0]
        if response.status_code == 200:
            self.asked.add(f"{method} {template}")


def template_of(path: str) -> str:
    """The path of the document that matches a path; parts in braces match anything."""
    parts = path.split("/")
    for one in QUESTIONS:
        wanted = one.path.split("/")
        if len(parts) == len(wanted) and all(
            each.startswith("{") or each == part for each, part in zip(wanted, parts, strict=True)
        ):
            return f"/{one.path}"
    raise AssertionError(f"the document has no {path}")
