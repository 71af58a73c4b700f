"""Bodies are opened within a bound, and shown as JSON, text or hexadecimal."""

import gzip
import zlib

import pyarrow as pa
import pytest

from streaming.console.bodies import MAX_OPENED, Opened, best_form, opened, shown

ORDER = b'{"order": 17, "note": "caf\xc3\xa9"}'
ZSTD = pa.compress(ORDER, "zstd", asbytes=True)


def gzipped(content):
    """The same in each process that collects these tests: no time of day is in it."""
    return gzip.compress(content, mtime=0)


def raw_deflate(content):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


@pytest.mark.parametrize(
    ("body", "encoding", "compression"),
    [
        (gzipped(ORDER), None, "gzip"),
        (gzipped(ORDER[:9]) + gzipped(ORDER[9:]), "x-gzip", "gzip"),
        (ZSTD, None, "zstd"),
        (ZSTD, "ZSTD", "zstd"),
        (zlib.compress(ORDER), "deflate", "deflate"),
        (raw_deflate(ORDER), "deflate", "deflate"),
        (ORDER, None, None),
        (ORDER, "utf-8", None),
        (b"x\x9c is no deflate unless it is said", None, None),
    ],
)
def test_a_compressed_body_is_opened(body, encoding, compression):
    content = body if compression is None else ORDER

    assert opened(body, encoding) == Opened(content, compression)


@pytest.mark.parametrize(
    "pack", [gzipped, zlib.compress, lambda one: pa.compress(one, "zstd", asbytes=True)]
)
def test_no_more_is_opened_than_the_bound(pack):
    bomb = pack(b"a" * 50_000_000)

    found = opened(bomb, "deflate" if pack is zlib.compress else None)

    assert (len(found.content), found.is_cut, found.fault) == (MAX_OPENED, True, None)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzipped(ORDER)[:-12], None),
        (b"\x1f\x8b\x08 no gzip", None),
        (ZSTD[:6] + b"\xff" * 20, None),
        (ORDER, "gzip"),
        (ORDER, "zstd"),
        (ORDER, "deflate"),
    ],
)
def test_what_cannot_be_opened_is_shown_as_it_was_published(body, encoding):
    found = opened(body, encoding)

    assert found.content == body
    assert found.fault


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (ORDER, "json"),
        (b" [1]", "json"),
        (b"{no json", "text"),
        (b"17", "text"),
        ("café".encode(), "text"),
        ("café".encode()[:-1], "text"),
        (b"\xff\xfe\x00\x01 bytes and more", "hex"),
        (b"\xff", "hex"),
        (b"", "text"),
        (b"[" * 100_000, "text"),
    ],
)
def test_the_form_that_a_reader_wants_is_chosen(content, form):
    assert best_form(content) == form


def test_a_body_is_shown_in_each_form():
    assert shown(ORDER, "json") == ('{\n  "order": 17,\n  "note": "café"\n}', False)
    assert shown(b"17 \xff", "text") == ("17 \\xff", False)
    assert shown(b"<b>", "hex") == (f"00000000  {'3c 62 3e':<47}  <b>", False)
    assert shown(b"no", "json") == ("The body is not JSON.\n\nno", False)
    assert shown(b"a" * 200_000, "text")[1]


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (
            b'{"n":152.50,"id":12345678901234567890123,"e":1E400}',
            "152.50 12345678901234567890123 1E400",
        ),
        (b'["caf\\u00e9 \\ud83d\\ude00 \\u4e2d"]', "café 😀 中"),
        (
            b'["\\\\u00e9 \\u0022 \\u005c \\u202e \\u0000 \\n"]',
            "\\\\u00e9 \\u0022 \\u005c \\u202e \\u0000 \\n",
        ),
        (b'{"a": 1, "a": 2}', "1 2"),
        (b'["\\ud800 \\u00e9", NaN]', "\\ud800 NaN"),
    ],
)
def test_a_document_is_indented_as_it_was_written_with_what_can_be_read(body, seen):
    text, _is_cut = shown(body, "json")

    assert [one for one in seen.split() if one not in text] == []
    assert not text.startswith("The body")
