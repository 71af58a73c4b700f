"""JSON from outside, nested only so deep.

How deep Python can read depends on how deep its own calls are at that moment. A command is read
twice, where it arrives and in the fold: what the one understood, the other must understand as well,
or the stream stops for ever. So the depth is bounded, far below what both can read.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 200
"""Levels of arrays and objects; headers may have 64, and stand some levels deep themselves."""

_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"

_decoder = msgspec.json.Decoder()


def read_json(text: bytes) -> Any:
    """The document that JSON text stands for.

    Raises:
        ValueError: it is none, or nested too deep; says so.
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
