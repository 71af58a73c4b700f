"""Which open redrive has a letter that is not handled yet: a letter is in one of them at a time.

    letter sealed --claim--> handled, or its redrive ends --release--> any redrive may have it

Kept in pages by copy id, so that a command of letters reads the pages of its letters and not the
letters of every open redrive.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.store import StateStore

_PAGE_BITS: Final = 8
_encode: Final = msgspec.msgpack.Encoder().encode
_pairs: Final = msgspec.msgpack.Decoder(list[tuple[int, int]])


class Claims:
    """The claims of all open redrives of a shard: copy id -> number of the redrive."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def of(self, copy_ids: Iterable[int]) -> dict[int, int]:
        """The claims on these copies."""
        found: dict[int, int] = {}
        for page, wanted in _by_page(copy_ids).items():
            known = self._read(page)
            found.update((copy_id, known[copy_id]) for copy_id in wanted if copy_id in known)
        return found

    def add(self, number: int, copy_ids: Iterable[int]) -> None:
        """Claim copies for a redrive."""
        for page, wanted in _by_page(copy_ids).items():
            self._write(page, self._read(page) | dict.fromkeys(wanted, number))

    def release(self, copy_ids: Iterable[int]) -> None:
        """Let other redrives have these copies."""
        for page, gone in _by_page(copy_ids).items():
            self._write(
                page, {key: one for key, one in self._read(page).items() if key not in gone}
            )

    def _read(self, page: int) -> dict[int, int]:
        data = self._store.read(_key(page))
        return {} if data is None else dict(_pairs.decode(unpack(data)))

    def _write(self, page: int, claims: dict[int, int]) -> None:
        if claims:
            self._store.write(_key(page), pack(_encode(sorted(claims.items()))))
        else:
            self._store.delete(_key(page))


def _by_page(copy_ids: Iterable[int]) -> dict[int, set[int]]:
    pages: dict[int, set[int]] = {}
    for copy_id in copy_ids:
        pages.setdefault(copy_id >> _PAGE_BITS, set()).add(copy_id)
    return pages


def _key(page: int) -> str:
    return f"claim/{page}"
