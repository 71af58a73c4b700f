"""What the pipeline said to one vhost's clients, sorted by what it was in reply to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from streaming.protocol.headers import CHANNEL, COPY_ID, KIND, SEQ
from streaming.scenario.replies import Delivered, Reply
from streaming.simulation.brokers import MARKING_CHANNEL
from streaming.simulation.wire_records import reply_of


class _Record(NamedTuple):
    value: bytes
    headers: Mapping[str, bytes]


class Outbox:
    """The outbound records of one vhost; repeats, which a replayed batch sends, are dropped."""

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._records: dict[int, _Record] = {}

    def take(self, value: bytes, headers: Mapping[str, bytes]) -> None:
        """Keep a record; notices of flow control, and of consumers that end, are no replies."""
        if headers[KIND] in {b"flow", b"cancel"}:
            return
        self._records.setdefault(int(headers[SEQ]), _Record(value, headers))

    def replies(self) -> list[list[Reply]]:
        """The replies to each call, in order."""
        calls: list[list[Reply]] = []
        replies: list[Reply] = []
        for _seq, record in sorted(self._records.items()):
            if _is_mark(record):
                calls.append(replies)
                replies = []
            else:
                replies.append(reply_of(record.value, record.headers, self._vhost))
        return calls

    def event_seq_of(self, mark: int) -> int:
        """The number of the shard's next event at a mark."""
        for record in self._records.values():
            if _is_mark(record):
                answer = json.loads(record.value)
                if answer["reply_id"] == str(mark):
                    return int(answer["seq"])
        raise LookupError(mark)

    def last_deliveries(self) -> dict[int, str]:
        """Copy -> delivery id of its last delivery that has to be settled."""
        last: dict[int, str] = {}
        for _seq, record in sorted(self._records.items()):
            if record.headers[KIND] != b"delivery":
                continue
            reply = reply_of(record.value, record.headers, self._vhost)
            if isinstance(reply, Delivered) and reply.delivery_id:
                last[int(record.headers[COPY_ID])] = reply.delivery_id
        return last


def _is_mark(record: _Record) -> bool:
    headers = record.headers
    return (headers[KIND], headers[CHANNEL]) == (b"answer", MARKING_CHANNEL.encode())
