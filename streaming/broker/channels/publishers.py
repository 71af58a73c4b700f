"""The publishers of quorum queues with `reject-publish`, and which of them are blocked (R-LEN-18).

RabbitMQ blocks publishers, not queues: a full queue tells every channel that has published to it
to stop, and tells them all to go on when it falls to the soft limit. A channel that publishes there
for the first time asks whether the queue is full at that moment.

A publisher is forgotten when its channel closes. Clients need not close a channel that only
publishes, so each queue remembers `MAX_PUBLISHERS` at most; the oldest one is forgotten first, and
counts as new when it publishes again.
"""

from typing import Final

import msgspec

from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.store import StateStore

MAX_PUBLISHERS: Final = 1_000
"""The publishers that one queue remembers."""

NO_SOURCE: Final = -1

Publisher = tuple[str | None, str, int]
"""The user and name of a channel and NO_SOURCE; or None, an empty name and the number of the queue
whose dead letters are published at least once."""


def worker_of(queue_number: int) -> Publisher:
    """What publishes the dead letters of a queue at least once."""
    return (None, "", queue_number)


_KEY: Final = "publishers"
_decoder = msgspec.msgpack.Decoder(dict[int, list[tuple[Publisher, bool]]])
_encoder = msgspec.msgpack.Encoder()


class Publishers:
    """The known publishers of the quorum queues of one shard; read when they are first needed."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._queues: dict[int, dict[Publisher, bool]] | None = None
        self._changed = False

    def _read(self) -> dict[int, dict[Publisher, bool]]:
        """Queue number -> publishers, oldest first -> whether they are blocked."""
        if self._queues is None:
            data = self._store.read(_KEY)
            queues = {} if data is None else _decoder.decode(unpack(data))
            self._queues = {number: dict(known) for number, known in queues.items()}
        return self._queues

    def refuses(self, queue_number: int, publisher: Publisher, *, full: bool) -> bool:
        """Whether the publisher is blocked; a new one is, if the queue is full."""
        known = self._read().setdefault(queue_number, {})
        blocked = known.get(publisher)
        if blocked is None:
            if len(known) >= MAX_PUBLISHERS:
                del known[next(iter(known))]
            blocked = known[publisher] = full
            self._changed = True
        return blocked

    def set_all(self, queue_number: int, *, blocked: bool) -> None:
        """Block or unblock all known publishers of a queue."""
        queues = self._read()
        known = queues.get(queue_number, {})
        if (not blocked) in known.values():
            queues[queue_number] = dict.fromkeys(known, blocked)
            self._changed = True

    def forget(self, publisher: Publisher) -> None:
        """Forget a publisher whose channel closed."""
        for known in self._read().values():
            if known.pop(publisher, None) is not None:
                self._changed = True

    def forget_queue(self, queue_number: int) -> None:
        """Forget the publishers of a queue that is deleted, and what published its dead letters."""
        if self._read().pop(queue_number, None) is not None:
            self._changed = True
        self.forget(worker_of(queue_number))

    def forget_all(self) -> None:
        """Forget all publishers, because all channels close."""
        self._queues, self._changed = {}, True

    def save(self) -> None:
        """Write back what changed."""
        if not self._changed:
            return
        queues = {number: list(known.items()) for number, known in self._read().items() if known}
        if queues:
            self._store.write(_KEY, pack(_encoder.encode(queues)))
        else:
            self._store.delete(_KEY)
