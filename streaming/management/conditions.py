"""Requests under a condition: the headers `If-Match` and `If-None-Match`.

No object has an entity tag, so `*` alone can hold: that the object is there, or that it is not.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from streaming.management.errors import ApiError
from streaming.management.routing import Asked, Handler

_TAG: Final = r'(?:W/)?"[^"]*"'
_TAGS: Final = re.compile(rf"\*|{_TAG}(?:\s*,\s*{_TAG})*")
_NOT_FOUND: Final = 404


async def answer_if(asked: Asked, look: Handler | None, handler: Handler) -> Any:
    """Carry out a request if its conditions hold.

    Args:
        look: what GET does at the path; None: nothing, so the object is taken to be there.

    Raises:
        ApiError: 412, a condition does not hold; 304, that is so of a request that only reads;
            400, a condition cannot be read.
    """
    if not {"if-match", "if-none-match"} & set(asked.headers):
        return await handler(asked)
    reads = asked.method == "GET"
    found = None
    try:
        if look is not None:
            found = await look(replace(asked, method="GET"))
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        _expect(asked.headers, is_there=False, reads=reads)
        if reads:
            raise
    else:
        _expect(asked.headers, is_there=True, reads=reads)
    return found if reads else await handler(asked)


def _expect(headers: Mapping[str, str], *, is_there: bool, reads: bool) -> None:
    wanted, unwanted = headers.get("if-match"), headers.get("if-none-match")
    if not is_there:
        if wanted is not None:
            raise ApiError(412)
        return
    for tags in (wanted, unwanted):
        if tags is not None and not _TAGS.fullmatch(tags.strip()):
            raise ApiError(400)
    if wanted not in {None, "*"}:
        raise ApiError(412)
    if unwanted is not None:
        raise ApiError(304 if unwanted == "*" and reads else 412)
