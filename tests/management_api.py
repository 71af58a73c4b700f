"""Short ways to ask the API in tests."""

from typing import Any

from starlette.testclient import TestClient

GUEST = ("guest", "guest")
Answer = Any


class Api:
    """A client with the user guest, unless another one is named."""

    def __init__(self, client: TestClient) -> None:
        self._client = client

    def ask(
        self, method: str, path: str, body: Any = None, user: Any = GUEST, **rest: Any
    ) -> Answer:
        """Make a request; return the response."""
        json = {} if body is None else {"json": body}
        return self._client.request(method, f"/api/{path}", auth=user, **json, **rest)

    def get(self, path: str, user: Any = GUEST) -> Any:
        """The document at a path."""
        response = self.ask("GET", path, user=user)
        assert response.status_code == 200, response.text
        return response.json()

    def put(self, path: str, body: Any = None, user: Any = GUEST) -> int:
        """Put an object; return the status."""
        response = self.ask("PUT", path, {} if body is None else body, user)
        assert response.status_code in {201, 204}, response.text
        return int(response.status_code)

    def refusal(self, method: str, path: str, body: Any = None, user: Any = GUEST) -> Any:
        """Status, error and reason of a request that is refused."""
        response = self.ask(method, path, body, user)
        document = response.json() if response.content else {}
        return response.status_code, document.get("error", ""), document.get("reason", "")
