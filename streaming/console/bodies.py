"""A body as people read it: opened if it is compressed, then as JSON, text or hexadecimal.

A few bytes can open to very many, so no more than MAX_OPENED of them are opened.
"""

import json
import re
import zlib
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from topology.sentences import say

Form = Literal["text", "json", "hex", "raw"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
"""How a body is shown; `raw` is the hexadecimal of what was published, not opened."""

MAX_OPENED: Final = 1_000_000
"""The most bytes that a compressed body is opened to."""

MAX_TEXT: Final = 100_000
MAX_HEX: Final = 16_384
"""The most characters, or bytes in hexadecimal, of a body on a page; the file has all."""

_GZIP: Final = b"\x1f\x8b\x08"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_DEFLATE: Final = "deflate"
_NAMES: Final = {
    **dict.fromkeys(("gzip", "x-gzip"), "gzip"),
    **dict.fromkeys(("zstd", "zstandard"), "zstd"),
    **dict.fromkeys((_DEFLATE, "zlib"), _DEFLATE),
}
_HEX_LINE: Final = 16


class Opened(NamedTuple):
    """A body after it was opened.

    Attributes:
        compression: `gzip`, `zstd` or `deflate`; None: it is not compressed.
        is_cut: whether there is more than was opened.
        fault: why it could not be opened; then the content is as it was published.
    """

    content: bytes
    compression: str | None = None
    is_cut: bool = False
    fault: str | None = None


def opened(body: bytes, encoding: str | None = None, most: int = MAX_OPENED) -> Opened:
    """Open a body that is compressed.

    Args:
        encoding: the property content_encoding; gzip and zstd are also known by how they begin.
    """
    compression = _NAMES.get((encoding or "").strip().lower())
    if compression is None and body.startswith((_GZIP, _ZSTD)):
        compression = "gzip" if body.startswith(_GZIP) else "zstd"
    if compression is None or not body:
        return Opened(body)
    try:
        content = (
            _unzstd(body, most) if compression == "zstd" else _inflate(body, compression, most)
        )
    except (zlib.error, OSError, EOFError) as error:
        return Opened(
            body, compression, fault=error.args[0] if isinstance(error, zlib.error) else str(error)
        )
    return Opened(content[:most], compression, len(content) > most)


def _inflate(body: bytes, compression: str, most: int) -> bytes:
    """Open gzip, of which there may be several parts, or deflate with or without its frame.

    Raises:
        zlib.error: it is neither.
    """
    if compression == _DEFLATE:
        try:
            return _one(body, zlib.MAX_WBITS, most)[0]
        except zlib.error:
            return _one(body, -zlib.MAX_WBITS, most)[0]
    content = b""
    rest = body
    while rest.startswith(_GZIP) and len(content) <= most:
        more, rest = _one(rest, zlib.MAX_WBITS | 16, most - len(content))
        content += more
    if not content and not body.startswith(_GZIP):
        raise zlib.error(say("it does not begin as gzip does"))
    return content


def _one(body: bytes, wbits: int, most: int) -> tuple[bytes, bytes]:
    """Open one part; what follows it comes back."""
    opener = zlib.decompressobj(wbits)
    content = opener.decompress(body, most + 1)
    if len(content) <= most and not opener.eof:
        raise zlib.error(say("it ends too early"))
    return content, opener.unused_data


def _unzstd(body: bytes, most: int) -> bytes:
    """Open zstd.

    Raises:
        OSError: it is not zstd.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to load, and few bodies need it

    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        content: bytes = stream.read(most + 1)
    return content


def best_form(content: bytes) -> Form:
    """How a body is shown if nobody has chosen: JSON, else text, else hexadecimal."""
    if content.lstrip()[:1] in {b"{", b"["} and _document(content) is not None:
        return "json"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        is_cut = error.end == len(content) or len(content) - error.start < 4  # noqa: PLR2004
        return "text" if is_cut and error.start else "hex"
    return "text"


_ESCAPED: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
)


def shown(content: bytes, form: Form) -> tuple[str, bool]:
    """A body as a text, and whether it is cut."""
    if form in {"hex", "raw"}:
        return "\n".join(_hex(content[:MAX_HEX])), len(content) > MAX_HEX
    text = content.decode("utf-8", "backslashreplace")
    if form == "json":
        text = _document(content) or say("The body is not JSON.\n\n%(text)s", text=text)
    return text[:MAX_TEXT], len(text) > MAX_TEXT


def _document(content: bytes) -> str | None:
    """JSON, indented, with each number as it was written; None if it is something else."""
    try:
        return _ESCAPED.sub(_readable, msgspec.json.format(content, indent=2).decode())
    except (ValueError, RecursionError):
        pass
    try:  # what only Python takes for JSON: half a character, NaN
        return json.dumps(json.loads(content), indent=2)
    except (ValueError, RecursionError):
        return None


def _readable(escaped: re.Match[str]) -> str:
    """A character that was written as an escape, if it is one that can be seen."""
    written = escaped[0]
    if not written.startswith("\\u"):
        return written
    character: str = json.loads(f'"{written}"')
    return character if character.isprintable() and character not in '"\\' else written


def _hex(content: bytes) -> Iterator[str]:
    for start in range(0, len(content), _HEX_LINE):
        line = content[start : start + _HEX_LINE]
        text = "".join(chr(one) if chr(one).isascii() and 31 < one < 127 else "." for one in line)  # noqa: PLR2004
        yield f"{start:08x}  {line.hex(' '):<47}  {text}"
