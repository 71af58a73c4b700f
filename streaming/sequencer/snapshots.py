"""The state of a sequenced vhost at an offset of its log, kept for the next start.

    CHECKPOINT/sequencer/VHOST/NEXT_OFFSET.snapshot

A snapshot saves time: without one, or with one of another version, the log is folded from its
first record, if it was not trimmed. So a snapshot that cannot be read is ignored, with a word in
the log. It says which log it is of: behind the state of another vhost, of another cluster or of a
topic that was made again, records would mean something else, so such a snapshot is refused.
"""

import logging
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from streaming.broker.sequence.log_fold import Terms
from streaming.broker.state.encoding import STATE_VERSION
from streaming.job_locations import FRONT_FOLDER
from streaming.protocol.addressing import escaped
from streaming.storage.location import AnyPath, storage_of
from topology.errors import DlxError

KEPT: Final = 3
"""How many snapshots of a vhost are kept, besides that which a fold of the job needs."""

_SUFFIX: Final = ".snapshot"
_FORMAT: Final = 2
_LEVEL: Final = 1

logger = logging.getLogger(__name__)


class LogIdentity(msgspec.Struct, array_like=True, frozen=True):
    """Which log a state is of.

    Attributes:
        topic: its name; `cluster` and `topic_id` are Kafka's ids.
    """

    vhost: str
    topic: str
    cluster: str
    topic_id: str

    def __str__(self) -> str:
        """Name the log."""
        return f"topic {self.topic} with the id {self.topic_id} of the Kafka cluster {self.cluster}"


class OtherLogError(DlxError):
    """A snapshot is not of the log that Kafka has."""

    help_code = "other-log"

    def __init__(self, file: str, there: LogIdentity, here: LogIdentity) -> None:
        super().__init__(file, there, here)
        self.file = file
        self.there = there
        self.here = here

    def __str__(self) -> str:
        """Say what differs, and the remedy."""
        there, here = self.there, self.here
        if there.vhost != here.vhost:
            what = f"of vhost {there.vhost}: give each job a checkpoint of its own"
        elif there.cluster != here.cluster:
            what = "of another cluster: correct kafka.bootstrap_servers or job.checkpoint_location"
        else:
            what = "of a topic that was deleted, or has another name: restore it"
        return (
            f"vhost {here.vhost}: the snapshot {self.file} is of {there}, and the log is {here}. "
            f"It is {what}. To begin with what is in the log now, without the messages of "
            f"before, move that snapshot's folder away, and give the job a new checkpoint and new "
            f"tables"
        )


class ShorterLogError(DlxError):
    """The log ends before the records that are in a snapshot of it."""

    help_code = "other-log"


class _Head(msgspec.Struct, array_like=True):
    """A snapshot as a file; `entries` are compressed."""

    format: int
    log: LogIdentity
    state_version: int
    terms: Terms | None
    next_offset: int
    needed_from: int
    entries: bytes


class Snapshot(msgspec.Struct):
    """A state at rest.

    Attributes:
        next_offset: of the first record that is not in it.
        entries: of the state store.
        terms: on which the newest epoch in it was folded.
        needed_from: the first offset of the log that a fold from here on needs: of a message in a
            queue, or the next one.
    """

    next_offset: int
    entries: dict[str, bytes]
    terms: Terms | None
    needed_from: int


_heads: Final = msgspec.msgpack.Decoder(_Head)
_entries: Final = msgspec.msgpack.Decoder(dict[str, bytes])


class Snapshots:
    """The snapshots of one vhost. Any thread may use them, one at a time.

    Args:
        log: its log, as Kafka has it.
    """

    def __init__(self, checkpoint: AnyPath, log: LogIdentity) -> None:
        folder = checkpoint / FRONT_FOLDER / escaped(log.vhost)
        self._folder = str(folder)
        self._storage = storage_of(folder)
        self._log = log

    def write(self, snapshot: Snapshot, job_at: int | None = None) -> None:
        """Write a snapshot, and remove those that are not needed any more.

        Args:
            job_at: next offset of the job; the newest snapshot up to there stays, so that the job's
                state can be folded again. None: it is not known, so the oldest one stays.
        """
        entries = zlib.compress(msgspec.msgpack.encode(snapshot.entries), _LEVEL)
        at = snapshot.next_offset
        of = (_FORMAT, self._log, STATE_VERSION, snapshot.terms)
        head = _Head(*of, at, snapshot.needed_from, entries)
        self._storage.replace(f"{at}{_SUFFIX}", msgspec.msgpack.encode(head))
        offsets = self.offsets()
        before_job = [offset for offset in offsets if job_at is not None and offset <= job_at]
        needed = (before_job or offsets)[-1 if before_job else 0]
        for offset in offsets[:-KEPT]:
            if offset != needed:
                self._storage.delete(f"{offset}{_SUFFIX}")

    def newest(self, ends: Callable[[], tuple[int, int]]) -> Snapshot | None:
        """The newest usable snapshot; None if there is none.

        Args:
            ends: asks for the oldest record that the log still has, and for the next one.

        Raises:
            OtherLogError: it is not of this log.
            ShorterLogError: the log ends before it.
        """
        offsets = self.offsets()
        first_offset, end_offset = ends()  # a front that leads may write others meanwhile
        for offset in reversed(offsets):
            found = self.at(offset)
            if found is None:
                continue
            if offset > end_offset:
                raise ShorterLogError(
                    f"vhost {self._log.vhost}: the topic {self._log.topic} ends at offset "
                    f"{end_offset}, and the snapshot {self._file(offset)} has records up to "
                    f"{offset}: Kafka has lost records whose messages were confirmed. Restore "
                    f"them; what the job has of them is in its tables"
                )
            if offset >= first_offset:
                return found
            self._ignore(offset, f"the log begins at offset {first_offset}")
        return None

    def at(self, offset: int) -> Snapshot | None:
        """The snapshot at an offset; None if there is none, or it cannot be used.

        Raises:
            OtherLogError: it is not of this log.
        """
        data = self._storage.read(f"{offset}{_SUFFIX}")
        if data is None:
            return None
        try:
            head = _heads.decode(data)
        except msgspec.DecodeError as error:
            self._ignore(offset, f"it is damaged, or another version made it ({error})")
            return None
        if head.log != self._log:
            raise OtherLogError(self._file(offset), head.log, self._log)
        if (head.format, head.state_version) != (_FORMAT, STATE_VERSION):
            self._ignore(offset, "another version made it")
            return None
        try:
            entries = _entries.decode(zlib.decompress(head.entries))
        except (zlib.error, msgspec.DecodeError) as error:
            self._ignore(offset, f"it is damaged ({error})")
            return None
        return Snapshot(head.next_offset, entries, head.terms, head.needed_from)

    def offsets(self) -> list[int]:
        """The offset of each snapshot, ascending."""
        names = (each.name.removesuffix(_SUFFIX) for each in self._storage.files())
        return sorted(int(name) for name in names if name.isdigit())

    def needed_from(self) -> int:
        """The first offset of the log that a start from any kept snapshot needs; 0 if unknown.

        Raises:
            OtherLogError: the oldest one is not of this log.
        """
        offsets = self.offsets()
        found = self.at(offsets[0]) if offsets else None
        return 0 if found is None else found.needed_from

    def _file(self, offset: int) -> str:
        return f"{self._folder}/{offset}{_SUFFIX}"

    def _ignore(self, offset: int, why: str) -> None:
        logger.warning(
            "vhost %s: the snapshot at offset %s is ignored: %s", self._log.vhost, offset, why
        )
