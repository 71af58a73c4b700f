"""What the API answers: JSON."""

import asyncio
import json
from typing import Any, Final

import msgspec
from starlette.responses import Response

from streaming.management.errors import ApiError

_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'",
    "vary": "accept, accept-encoding, origin",
    "x-content-type-options": "nosniff",
}
_AT_ONCE: Final = 200
_encoder: Final = msgspec.json.Encoder()


def encoded(document: object) -> bytes:
    """Write JSON; a name of a client may be text that UTF-8 cannot write."""
    try:
        return _encoder.encode(document)
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def error_response(error: ApiError) -> Response:
    """The answer to a request that is not carried out."""
    if not error.error:
        return Response(status_code=error.status, headers=error.headers)
    response = as_json({"error": error.error, "reason": error.reason}, error.status)
    response.headers.update(error.headers)
    return response


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
