"""The log of a sequenced vhost: its Kafka records.

One topic with one partition has everything that happens in the vhost, in order. A record is

    timestamp       when it happened, epoch milliseconds; never before that of the record before
    `dlx-log`       a `LogHeader`
    `dlx-content`   of a publish: its properties as they came, AMQP's flags and values
    value           of a publish the body; else what `kind` says

`docs/wire-format.md` describes the same for people. Only the AMQP front writes such records.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeVar

import msgspec

from streaming.broker.commands import Command, SettleOutcome
from streaming.broker.events import COPIED_CHANNEL
from streaming.broker.message import CONFIRM, IMMEDIATE, MANDATORY, Routed
from streaming.protocol.command_codec import decode_command
from topology.errors import DlxError

LOG_VERSION: Final = 2
"""Increment it with every change to what a record means.

2: a publish may be `routed`. A record has the lowest version that knows all that it says.
"""

FIRST_VERSION, ROUTED_VERSION = 1, 2

LOG: Final = "dlx-log"
CONTENT: Final = "dlx-content"


class LogKind(IntEnum):
    """What a record is. The numbers are in users' logs: append only."""

    PUBLISH = 1  # value: the body
    COMMAND = 2  # value: a command as `command_codec` encodes it
    SETTLE = 3  # value: a list of `Settlement`, in order
    TICK = 4  # no value: time has passed
    EPOCH = 5  # value: an `Epoch`; its writer writes every record that counts from here on
    DIGEST = 6  # value: a `Digest`


class LogHeader(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The header `dlx-log`; equal traffic has equal ones.

    Attributes:
        epoch: offset of the epoch record of the writer; of such a record itself -1.
        user, channel: who did it; of settlements, each says so itself. The front itself publishes
            contents of letters, as the operator, on the channel COPIED_CHANNEL.
        exchange, routing_key: of a publish.
        flags: of a publish: `message.MANDATORY | CONFIRM`.
        user_id: of a publish: the property, where it has to be the user (R-USER-1).
        routed: of a publish in a transaction: its queues as of then, by name and number; -1:
            whatever queue has the name (R-TX-2).
    """

    version: int
    epoch: int
    kind: int
    user: str | None = None
    channel: str = ""
    exchange: str = ""
    routing_key: str = ""
    flags: int = 0
    user_id: str | None = None
    routed: Routed | None = None


class Settlement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Deliveries of one channel are settled: see the command `Settle`."""

    user: str | None
    channel: str
    tag: int
    last: int = 0
    multiple: bool = False
    outcome: SettleOutcome = "ack"
    reason: str | None = None


class Epoch(msgspec.Struct, frozen=True, array_like=True):
    """A writer begins.

    Attributes:
        name: of the writer, unique.
        core_version: of the broker core that answers from here on.
        rules: a hash of everything besides the log that decides outcomes.
    """

    name: str
    core_version: int
    rules: str


class Digest(msgspec.Struct, frozen=True, array_like=True):
    """What came of the log up to an offset, in short: see `broker.sequence.digest`.

    Attributes:
        wide: of more, but of one segment; empty if the writer has none.
    """

    boundary: int
    digest: bytes
    wide: bytes = b""


class UnknownRecordError(Exception):
    """A record that is none of the log: another program wrote it, or it is damaged.

    It changes nothing: no fold of the log begins with it, and the job quarantines it.
    """


class NewerLogError(DlxError):
    """The log has records of a version that this program does not know."""

    help_code = "log-terms"


_encoder: Final = msgspec.msgpack.Encoder()
_header: Final = msgspec.msgpack.Decoder(LogHeader)
_settlements: Final = msgspec.msgpack.Decoder(list[Settlement])
_epoch: Final = msgspec.msgpack.Decoder(Epoch)
_digest: Final = msgspec.msgpack.Decoder(Digest)
_KINDS: Final = frozenset(LogKind)
_ALL_FLAGS: Final = MANDATORY | IMMEDIATE | CONFIRM
_Value = TypeVar("_Value")


def encode(value: LogHeader | list[Settlement] | Epoch | Digest) -> bytes:
    """Encode a header, or the value of a record that is neither a publish nor a command."""
    return _encoder.encode(value)


def read_header(data: bytes | None) -> LogHeader:
    """Read the header `dlx-log`.

    Raises:
        UnknownRecordError: it is missing or damaged.
        NewerLogError: a newer version wrote it.
    """
    if data is None:
        raise UnknownRecordError(f"the record has no header {LOG}: another program wrote it")
    try:
        header = _header.decode(data)
    except msgspec.DecodeError as error:
        raise UnknownRecordError(f"the header {LOG} cannot be read: {error}") from error
    if header.version > LOG_VERSION:
        raise NewerLogError(
            f"a record of the log has version {header.version}, and this program knows "
            f"{LOG_VERSION}: upgrade it"
        )
    if header.version < 1 or header.kind not in _KINDS:
        raise UnknownRecordError(
            f"no record has version {header.version} and kind {header.kind}: another program "
            "wrote it"
        )
    if not 0 <= header.flags <= _ALL_FLAGS:
        raise UnknownRecordError(f"no publish has the flags {header.flags}: another program did it")
    if header.kind == LogKind.PUBLISH and header.user is None and header.channel != COPIED_CHANNEL:
        raise UnknownRecordError("a publish has no user: another program wrote it")
    return header


def read_command(value: bytes) -> Command:
    """Read the value of a record with a command; UnknownRecordError if it is damaged."""
    try:
        return decode_command(value, 1)
    except (
        *(msgspec.MsgspecError, zlib.error, ValueError, IndexError, RecursionError),
        ArithmeticError,  # of a decimal number
    ) as error:
        raise UnknownRecordError(f"the command cannot be read: {error}") from error


def read_settlements(value: bytes) -> list[Settlement]:
    """Read the value of a record of settlements; UnknownRecordError if it is damaged."""
    return _read(_settlements, value)


def read_epoch(value: bytes) -> Epoch:
    """Read the value of an epoch record; UnknownRecordError if it is damaged."""
    return _read(_epoch, value)


def read_digest(value: bytes) -> Digest:
    """Read the value of a digest record; UnknownRecordError if it is damaged."""
    return _read(_digest, value)


def _read(decoder: msgspec.msgpack.Decoder[_Value], value: bytes) -> _Value:
    try:
        return decoder.decode(value)
    except msgspec.DecodeError as error:
        raise UnknownRecordError(f"the value of the record cannot be read: {error}") from error


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    LogKind.COMMAND: read_command,
    LogKind.SETTLE: read_settlements,
    LogKind.EPOCH: read_epoch,
    LogKind.DIGEST: read_digest,
}
"""What reads the value of each kind of record; a publish has a body, and a tick nothing."""


def check_value(kind: int, value: bytes) -> None:
    """Check that the value of a record can be read.

    Raises:
        UnknownRecordError: it cannot.
    """
    read = _READERS.get(kind)
    if read is not None:
        read(value)
