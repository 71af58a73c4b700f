"""Reading JSON from outside, up to a fixed depth.

How deep Python can read depends on the depth of its call stack at that moment. A command is read
twice, at the intake and in the fold: if only the first succeeded, the stream would stop for ever.
So the depth is limited, far below what both can read.
"""

from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 200
"""Levels of arrays and objects. A headers table, a few levels deep itself, may have 64 levels."""

_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"

_decoder = msgspec.json.Decoder()


def read_json(text: bytes) -> Any:
    """Decode JSON.

    Raises:
        ValueError: not JSON, or nested too deep; the message says which.
    """
    try:
        document = _decoder.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_too_deep(document):
        raise ValueError(_TOO_DEEP)
    return document


def _is_too_deep(document: Any) -> bool:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
