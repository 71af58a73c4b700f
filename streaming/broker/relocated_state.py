"""A state at rest whose messages are stored elsewhere, as that of another fold of the same log.

    entries of a state store --every Message in them: move--> the same entries, in place

Where a message is stored decides no outcome, so both states come to the same.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from streaming.broker.channels.deliveries import DELIVERIES
from streaming.broker.message import Message
from streaming.broker.queues.held_copies import HELD
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.pages import COPIES, PageCodec
from streaming.broker.state.schema import FifoRecord, LevelRecord, QueueRecord, UnfinishedRecord

_PAGE: Final = re.compile(r"([phd])\d[^/]*/\d+")
_CODECS: Final = {"p": COPIES, "h": HELD, "d": DELIVERIES}
_GROUP: Final = re.compile(r"qg\d+")
_QUEUE: Final = re.compile(r"qr\d+")
_VERSION: Final = "version/"
_UNFINISHED: Final = "unfinished"

_encode: Final = msgspec.msgpack.Encoder().encode
_group: Final = msgspec.msgpack.Decoder(dict[int, tuple[int, bytes | None]])
_queue: Final = msgspec.msgpack.Decoder(QueueRecord)
_unfinished: Final = msgspec.msgpack.Decoder(UnfinishedRecord)
_message: Final = msgspec.msgpack.Decoder(Message)


def relocate(entries: dict[str, bytes], move: Callable[[Message], None]) -> None:
    """Change the place of each message in a state.

    Args:
        entries: of its store.
        move: sets the place of a message.
    """
    for key, data in entries.items():
        if page := _PAGE.fullmatch(key):
            entries[key] = _page(data, _CODECS[page[1]], move)
        elif _GROUP.fullmatch(key):
            group = _group.decode(unpack(data))
            for number, (due_ms, record) in group.items():
                if record is not None:
                    group[number] = due_ms, _queue_record(record, move)
            entries[key] = pack(_encode(group))
        elif _QUEUE.fullmatch(key):
            entries[key] = _queue_record(data, move)
        elif key == _UNFINISHED:
            work = _unfinished.decode(unpack(data))
            for detached in work.detached:
                _levels(detached.levels, move)
            entries[key] = pack(_encode(work))
        elif key.startswith(_VERSION):
            message = _message.decode(unpack(data))
            move(message)
            entries[key] = pack(_encode(message))


def _queue_record(data: bytes, move: Callable[[Message], None]) -> bytes:
    queue = _queue.decode(unpack(data))
    _levels(queue.levels, move)
    if queue.held_fifo is not None:
        _fifo(queue.held_fifo, HELD, move)
    return pack(_encode(queue))


def _levels(levels: Iterable[LevelRecord], move: Callable[[Message], None]) -> None:
    for level in levels:
        fifos = [run.fifo for run in level.requeued or ()]
        if level.fifo is not None:
            fifos.append(level.fifo)
        for fifo in fifos:
            _fifo(fifo, COPIES, move)


def _fifo(fifo: FifoRecord, codec: PageCodec, move: Callable[[Message], None]) -> None:
    if fifo.front is not None:
        fifo.front = _page(fifo.front, codec, move)
    if fifo.back is not None:
        fifo.back = _page(fifo.back, codec, move)


def _page(data: bytes, codec: PageCodec, move: Callable[[Message], None]) -> bytes:
    items: list[Any] = codec.decode(data)
    for item in items:
        move(item.message if codec is COPIES else item.copy.message)
    return codec.encode(items)
