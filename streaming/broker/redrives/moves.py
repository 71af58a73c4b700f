"""Moves letters: out of their queues, into their targets, one event each.

    take --> find the copies --> is it still there? may it move? --> take out --> event --> arrive
                                   no: skipped          full: later

A letter that cannot move never stops the others: it is skipped with a reason, or waits for its
target while letters to other targets go on; it waits only for a target that could have room for it.
Letters of one target keep their sealed order.
"""

from collections import deque
from collections.abc import Container, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from streaming.broker.context import ShardContext
from streaming.broker.dead_letters.message_route import route_of
from streaming.broker.events import Kind
from streaming.broker.message import Copy, Envelope, Message
from streaming.broker.queues.queue import Queue
from streaming.broker.queues.registry import QueueRegistry
from streaming.broker.redrive_letters import NOT_IN_LOG, Edit, Letter, Target
from streaming.broker.redrives.letters import (
    redrive_count,
    redriven_envelope,
    stored_copy,
    stored_message,
)
from streaming.broker.redrives.records import OpenRecord
from streaming.broker.redrives.version_keys import name_of_content
from streaming.broker.redrives.versions import Versions
from streaming.broker.state.encoding import pack, unpack
from streaming.broker.state.store import StateStore

QUEUE_GONE: Final = "queue_gone"
NOT_READY: Final = "not_ready"
TARGET_GONE: Final = "target_gone"
NO_ROUTE: Final = "no_route"
CAP: Final = "cap"
REPUBLISHED: Final = "republished"
NOT_STORED: Final = "not_stored"
IN_QUEUE: Final = "in_queue"
TOO_LARGE: Final = "too_large"
"""Why a letter is skipped; `CAP` parks it."""

_AGAIN_BITS: Final = 12
_ids = msgspec.msgpack.Decoder(set[int])


class _Move(NamedTuple):
    """A letter that may move; `message` is its new version if it is edited."""

    letter: Letter
    copy: Copy
    message: Message
    envelope: Envelope
    targets: tuple[Queue, ...]


class RepublishedCopies:
    """The copies that were published again after they had left their queue: each at most once."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def __contains__(self, copy_id: int) -> bool:
        return copy_id in self._page(copy_id)

    def add(self, copy_id: int) -> None:
        """Remember a copy for ever."""
        page = sorted({*self._page(copy_id), copy_id})
        self._store.write(self._key(copy_id), pack(msgspec.msgpack.encode(page)))

    def _page(self, copy_id: int) -> set[int]:
        data = self._store.read(self._key(copy_id))
        return set() if data is None else _ids.decode(unpack(data))

    @staticmethod
    def _key(copy_id: int) -> str:
        return f"again/{copy_id >> _AGAIN_BITS}"


class Mover:
    """Moves the letters of one open redrive during one tick.

    Args:
        at_most: how many letters may move.
        effort: how many letters may move or be skipped.

    Attributes:
        left: how many letters may still move.
        effort: how many letters may still move or be skipped.
        blocked: the targets whose letters wait.
    """

    def __init__(
        self,
        context: ShardContext,
        queues: QueueRegistry,
        record: OpenRecord,
        at_most: int,
        effort: int,
    ) -> None:
        self._context = context
        self._queues = queues
        self._record = record
        self.left = at_most
        self.effort = effort
        self._again = RepublishedCopies(context.store)
        self._versions = Versions(context)
        self._envelopes: dict[tuple[Envelope, Target, int, Edit | None], Envelope] = {}
        self._coming: dict[str, int] = {}  # queue -> moves to it that are not done yet
        self.blocked: set[Target | None] = set()

    def handle(self, letters: Sequence[Letter]) -> list[Letter]:
        """Move these letters, or skip them; return those that stay for a later tick."""
        ids: dict[str, set[int]] = {}
        for letter in letters:
            if letter.stored is None and letter.target not in self.blocked:
                ids.setdefault(letter.queue, set()).add(letter.copy_id)
        found = {name: self._find(name, wanted) for name, wanted in ids.items()}
        alone = False  # whether `found` is outdated, so that each letter is looked up again
        left: list[Letter] = []
        moves: list[_Move] = []
        waiting = deque(letters)
        while waiting:
            letter = waiting.popleft()
            if letter.target in self.blocked:
                left.append(letter)
                continue
            if alone and letter.stored is None:
                found[letter.queue] = self._find(letter.queue, {letter.copy_id})
            move = self._move(letter, found.get(letter.queue))
            if isinstance(move, str):
                self.effort -= 1
                self._skip(letter, move)
                continue
            if not alone and self._is_delicate(move, ids):
                self._flush(moves)
                alone = True
                waiting.appendleft(letter)
                continue
            if self._is_full(move):
                assert letter.target is not None
                self.blocked.add(letter.target)
                left.append(letter)
                continue
            self.left -= 1
            self.effort -= 1
            moves.append(move)
            for queue in move.targets:
                self._coming[queue.name] = self._coming.get(queue.name, 0) + 1
            if alone:
                self._flush(moves)
        self._flush(moves)
        return left

    # -- deciding

    def _find(self, name: str, copy_ids: set[int]) -> dict[int, Copy] | None:
        """The copies that are still ready; None if there is no such queue."""
        if name not in self._context.vhost.queues:
            return None
        return self._queues.named(name).find_ready(copy_ids)

    def _copy(self, letter: Letter, found: dict[int, Copy] | None) -> Copy | str:
        """The copy of a letter, or why it is skipped."""
        if letter.stored is not None:
            if letter.copy_id in self._again:
                return REPUBLISHED
            if self._context.config.sequenced:
                if letter.stored.size == NOT_IN_LOG:
                    return NOT_STORED
                return stored_copy(letter, letter.stored, None)
            try:
                published = self._context.published(stored_message(letter.stored))
            except LookupError:
                return NOT_STORED
            return stored_copy(letter, letter.stored, published.headers)
        if found is None:
            return QUEUE_GONE
        return found.get(letter.copy_id, NOT_READY)

    def _move(self, letter: Letter, found: dict[int, Copy] | None) -> _Move | str:
        """What is to become of a letter, or why it is skipped."""
        copy = self._copy(letter, found)
        if isinstance(copy, str):
            return copy
        options, target = self._record.options, letter.target
        message = copy.message
        content = self._content_of(letter)
        if content is not None:
            version = self._versions.find(content)
            if version is None:
                return NOT_STORED
            message = version
        if target is None:
            return _Move(letter, copy, message, copy.envelope, ())
        if options.action == "redrive" and redrive_count(copy.envelope) >= options.cap:
            return CAP
        key = (copy.envelope, target, letter.published_ms, letter.edit)
        envelope = self._envelopes.get(key)
        if envelope is None:
            envelope = self._envelopes[key] = redriven_envelope(
                copy.envelope,
                target,
                self._record.id,
                options,
                letter.published_ms,
                self._context.clock.now_ms,
                letter.edit,
            )
        vhost = self._context.vhost
        if target.queue is not None:
            if target.queue not in vhost.queues:
                return TARGET_GONE
            names: Sequence[str] = (target.queue,)
        elif target.exchange not in vhost.router.exchanges:
            return TARGET_GONE
        else:
            route = route_of(self._context, envelope, message)
            self._context.alternate_warnings.warn(route.missing_alternates)
            names = route.queues
            if not names:
                return NO_ROUTE
        found_queues = tuple([self._queues.named(name) for name in names])
        if not all(queue.may_ever_hold(message.size) for queue in found_queues):
            return TOO_LARGE
        return _Move(letter, copy, message, envelope, found_queues)

    def _content_of(self, letter: Letter) -> str | None:
        """The version that has the content of a letter; None: its own message has it.

        A letter that is in no queue has a new message in a sequenced vhost, because nothing keeps
        the old one: its front has written the content into the log again.
        """
        if letter.edit is not None:
            return letter.edit.version
        if letter.stored is not None and self._context.config.sequenced:
            return name_of_content(letter.stored.message[2])
        return None

    def _is_delicate(self, move: _Move, sources: Container[str]) -> bool:
        """Whether letters must move one by one from here on.

        A target that refuses messages may become full; one that is also a source may lose letters.
        """
        return any(
            queue.name in sources
            or (queue.settings.has_length_limit and queue.settings.overflow != "drop-head")
            for queue in move.targets
        )

    def _is_full(self, move: _Move) -> bool:
        ceiling = self._record.options.ceiling
        return any(
            (ceiling is not None and queue.ready + self._coming.get(queue.name, 0) >= ceiling)
            or queue.would_refuse(move.message.size)
            for queue in move.targets
        )

    # -- doing

    def _flush(self, moves: list[_Move]) -> None:
        """Take the copies of these moves out of their queues, and let them arrive."""
        sources: dict[str, dict[int, Copy]] = {}
        for move in moves:
            if move.letter.stored is None:
                copies = sources.setdefault(move.letter.queue, {})
                copies[move.copy.copy_id] = move.copy
        for name, copies in sources.items():
            self._queues.named(name).take_out(copies)
        for move in moves:
            self._arrive(move)
        for name in sources:
            self._queues.named(name).after_take()
        moves.clear()
        self._coming.clear()

    def _arrive(self, move: _Move) -> None:
        """Record a move, and put the letter into its targets."""
        record, context = self._record, self._context
        events, copy = context.events, move.copy
        detail: dict[str, Any] = {"redrive": record.id}
        record.moved += 1
        if move.letter.target is None:
            events.add(Kind.DISCARDED, move.letter.queue, copy, 0, detail)
            return
        kind = Kind.REDRIVEN
        if move.letter.stored is not None:
            kind = Kind.REPUBLISHED
            self._again.add(copy.copy_id)
            detail["action"] = record.options.action
        edit, message = move.letter.edit, move.message
        content = self._content_of(move.letter)
        if content is not None:
            original = content if edit is None else edit.original
            key = [message.topic_number, message.partition, message.offset]
            detail["edit"] = {"original": original, "version": content, "message": key}
        names = [queue.name for queue in move.targets]
        count = redrive_count(move.envelope)
        events.add(kind, move.letter.queue, copy, count, {**detail, "targets": names})
        for queue in move.targets:
            if record.follows():
                record.following.add(events.next_seq)
            queue.arrive(message, move.envelope, copy.copy_id, context.clock.now_ms)

    def _skip(self, letter: Letter, reason: str) -> None:
        """Record that a letter stays where it is."""
        record = self._record
        if reason == CAP:
            record.parked += 1
        else:
            record.skipped += 1
        self._context.events.add(
            Kind.SKIPPED,
            letter.queue,
            detail={"redrive": record.id, "copy_id": letter.copy_id, "reason": reason},
        )
