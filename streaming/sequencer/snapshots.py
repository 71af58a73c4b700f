"""The state of a sequenced vhost at an offset of its log, kept for the next start.

    CHECKPOINT/sequencer/VHOST/NEXT_OFFSET.snapshot

A snapshot saves time and decides nothing: without one, or with one of another version, the log is
folded from its first record. So a snapshot that cannot be read is ignored, with a word in the log.
"""

import logging
import zlib
from typing import Final

import msgspec

from streaming.broker.state.encoding import STATE_VERSION
from streaming.protocol.addressing import escaped
from streaming.storage.location import AnyPath, storage_of

FOLDER: Final = "sequencer"
KEPT: Final = 3
"""How many snapshots of a vhost are kept."""

_SUFFIX: Final = ".snapshot"
_FORMAT: Final = 1
_LEVEL: Final = 1

logger = logging.getLogger(__name__)


class Snapshot(msgspec.Struct, array_like=True):
    """A state at rest.

    Attributes:
        next_offset: of the first record that is not in it.
        entries: of the state store.
    """

    format: int
    state_version: int
    next_offset: int
    entries: dict[str, bytes]


_decoder: Final = msgspec.msgpack.Decoder(Snapshot)


class Snapshots:
    """The snapshots of one vhost. Any thread may use them, one at a time."""

    def __init__(self, checkpoint: AnyPath, vhost: str) -> None:
        self._storage = storage_of(checkpoint / FOLDER / escaped(vhost))
        self._vhost = vhost

    def write(self, next_offset: int, entries: dict[str, bytes]) -> None:
        """Write a snapshot, and remove those that are not needed any more."""
        snapshot = Snapshot(_FORMAT, STATE_VERSION, next_offset, entries)
        data = zlib.compress(msgspec.msgpack.encode(snapshot), _LEVEL)
        self._storage.replace(f"{next_offset}{_SUFFIX}", data)
        for offset in self.offsets()[:-KEPT]:
            self._storage.delete(f"{offset}{_SUFFIX}")

    def newest(self, first_offset: int, end_offset: int) -> Snapshot | None:
        """The newest usable snapshot; None if there is none.

        Args:
            first_offset: the oldest record that the log still has.
            end_offset: the log ends before it.
        """
        for offset in reversed(self.offsets()):
            if not first_offset <= offset <= end_offset:
                self._ignore(offset, f"the log has records {first_offset} to {end_offset - 1}")
                continue
            found = self.at(offset)
            if found is not None:
                return found
        return None

    def at(self, offset: int) -> Snapshot | None:
        """The snapshot at an offset; None if there is none, or it cannot be used."""
        data = self._storage.read(f"{offset}{_SUFFIX}")
        if data is None:
            return None
        try:
            found = _decoder.decode(zlib.decompress(data))
        except (zlib.error, msgspec.DecodeError) as error:
            self._ignore(offset, f"it is damaged ({error})")
            return None
        if (found.format, found.state_version) == (_FORMAT, STATE_VERSION):
            return found
        self._ignore(offset, "another version made it")
        return None

    def offsets(self) -> list[int]:
        """The offset of each snapshot, ascending."""
        names = (each.name.removesuffix(_SUFFIX) for each in self._storage.files())
        return sorted(int(name) for name in names if name.isdigit())

    def _ignore(self, offset: int, why: str) -> None:
        logger.warning(
            "vhost %s: the snapshot at offset %s is ignored: %s", self._vhost, offset, why
        )
