"""What the API answers: JSON."""

import json
from collections.abc import AsyncIterable
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streaming.management.errors import ApiError
from streaming.management.pacing import next_turn

_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'",
    "vary": "accept, accept-encoding, origin",
    "x-content-type-options": "nosniff",
}
_PIECE: Final = 65_536
"""Bytes that are sent at once, about."""

_encoder: Final = msgspec.json.Encoder()


def encoded(document: object) -> bytes:
    """Write JSON; a name of a client may be text that UTF-8 cannot write."""
    try:
        return _encoder.encode(document)
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode("ascii")


def as_bytes(item: Any) -> bytes:
    """An item in JSON; bytes are written already."""
    return item if isinstance(item, bytes) else encoded(item)


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


def failed(reason: str, **rest: Any) -> Response:
    """The answer of a health check that fails."""
    return as_json({"status": "failed", "reason": reason, **rest}, 503)


def json_bytes(body: bytes, status: int = 200) -> Response:
    """An answer with a document that is written already."""
    return Response(body, status, dict(_HEADERS), "application/json")


Pieces = list[bytes]
"""A long answer, cut so that each piece is sent in a short time."""


async def written(items: AsyncIterable[Any], head: bytes = b"[", tail: bytes = b"]") -> Pieces:
    """Write a list as JSON."""
    pieces, some, size = [], [head], len(head)
    is_first = True
    async for item in items:
        part = as_bytes(item)
        some += [part] if is_first else [b",", part]
        is_first = False
        size += len(part)
        if size >= _PIECE:
            pieces.append(b"".join(some))
            some, size = [], 0
    return [*pieces, b"".join([*some, tail])]


class LongAnswer(Response):
    """An answer that is sent in pieces: others are served between two of them."""

    def __init__(self, pieces: Pieces, kind: str = "application/json") -> None:
        self.pieces = pieces
        size = sum(map(len, pieces))
        headers = {**_HEADERS, "content-length": str(size)}
        super().__init__(headers=headers, media_type=kind)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it (ASGI)."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        pieces = self.pieces if scope["method"] != "HEAD" else [b""]
        for piece in pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await next_turn()
        await send({"type": "http.response.body", "body": pieces[-1]})


def created(*, new: bool = True, location: str | None = None) -> Response:
    """201 for a new object, 204 for one that was there."""
    response = Response(status_code=201 if new else 204, headers=dict(_HEADERS))
    if location is not None:
        response.headers["location"] = location
    return response


def done() -> Response:
    """204: it was carried out."""
    return created(new=False)
