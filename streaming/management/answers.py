"""What the API answers: JSON, and errors in RabbitMQ's words."""

import asyncio
import json
from typing import Any, Final

import msgspec
from starlette.responses import Response

_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'",
    "vary": "accept, accept-encoding, origin",
    "x-content-type-options": "nosniff",
}
_AT_ONCE: Final = 200
_encoder: Final = msgspec.json.Encoder()


class ApiError(Exception):
    """A request is not carried out.

    Attributes:
        error, reason: as the body has them; no error: no body.
    """

    def __init__(
        self, status: int, error: str = "", reason: Any = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}

    def response(self) -> Response:
        """The answer."""
        if not self.error:
            return Response(status_code=self.status, headers=self.headers)
        document = {"error": self.error, "reason": self.reason}
        response = as_json(document, self.status)
        response.headers.update(self.headers)
        return response


def bad_request(reason: Any) -> ApiError:
    """400: the request makes no sense."""
    return ApiError(400, "bad_request", reason)


def missing() -> ApiError:
    """404: there is no such object."""
    return ApiError(404, "Object Not Found", "Not Found")


def not_found(reason: str) -> ApiError:
    """404: something that the request names is not there."""
    return ApiError(404, "not_found", reason)


def not_authorised(reason: str) -> ApiError:
    """401: the user may not do this."""
    return ApiError(401, "not_authorised", reason)


def encoded(document: object) -> bytes:
    """Write JSON; a name of a client may be text that UTF-8 cannot write."""
    try:
        return _encoder.encode(document)
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def as_json(document: object, status: int = 200) -> Response:
    """An answer with a document."""
    return json_bytes(encoded(document), status)


def json_bytes(body: bytes, status: int = 200) -> Response:
    """An answer with a document that is written already."""
    return Response(body, status, dict(_HEADERS), "application/json")


async def as_long_json(items: list[Any]) -> Response:
    """An answer with a list."""
    return json_bytes(await long_encoded(items))


async def long_encoded(items: list[Any]) -> bytes:
    """Write a list as JSON, piece by piece: others are served meanwhile."""
    pieces = []
    for start in range(0, len(items), _AT_ONCE):
        pieces.append(encoded(items[start : start + _AT_ONCE])[1:-1])
        await asyncio.sleep(0)
    return b"[%b]" % b",".join(pieces)


def created(*, new: bool = True, location: str | None = None) -> Response:
    """201 for a new object, 204 for one that was there."""
    response = Response(status_code=201 if new else 204, headers=dict(_HEADERS))
    if location is not None:
        response.headers["location"] = location
    return response


def done() -> Response:
    """204: it was carried out."""
    return created(new=False)
