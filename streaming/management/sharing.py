"""Answers about very many queues are made once, for all who ask for the same.

An answer is given again for a second to whoever may see the same, while nothing is declared or
deleted meanwhile: its counts are a second old at most. RabbitMQ's are up to five seconds old.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from streaming.amqp.vhosts import OpenVhost
from streaming.management.pacing import Pace

MANY: Final = 1_000
"""Queues from which on answers are shared."""

FRESH_S: Final = 1.0
MOST: Final = 16
"""Answers that are kept."""

T = TypeVar("T")
QueuePlace = tuple[str, str]
"""A vhost, and the name of a queue in it."""


class QueueNames:
    """The queues of each vhost in order, sorted again when something is declared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[OpenVhost, tuple[int, list[QueuePlace]]] = (
            WeakKeyDictionary()
        )

    async def of(self, vhost: OpenVhost, pace: Pace) -> list[QueuePlace]:
        """The queues; the list stays as it is."""
        version = vhost.shard.vhost.version
        known = self._known.get(vhost)
        if known is None or known[0] != version:
            names = list(vhost.shard.vhost.queues)
            places = [(vhost.name, name) async for name in pace.each(names)]
            known = self._known[vhost] = version, await pace.in_order(places, reverse=False)
        return known[1]


class WrittenQueues:
    """Queues of each vhost in JSON: what each was when it was written, and what was written."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[OpenVhost, dict[str, tuple[Any, bytes]]] = (
            WeakKeyDictionary()
        )

    def of(self, vhost: OpenVhost) -> dict[str, tuple[Any, bytes]]:
        """The queues of a vhost by name; some of them may be gone."""
        found = self._known.setdefault(vhost, {})
        if len(found) > 2 * len(vhost.shard.vhost.queues):
            found.clear()
        return found


class _Answer(Generic[T]):
    """One that is made, or is being made."""

    def __init__(self, making: Awaitable[T]) -> None:
        self.task: asyncio.Task[T] = asyncio.get_running_loop().create_task(self._made(making))
        self._done_s = 0.0

    async def _made(self, making: Awaitable[T]) -> T:
        answer = await making
        self._done_s = asyncio.get_running_loop().time()
        return answer

    @property
    def is_fresh(self) -> bool:
        """Whether it may be given again."""
        if not self.task.done():
            return True
        failed = self.task.cancelled() or self.task.exception() is not None
        return not failed and asyncio.get_running_loop().time() - self._done_s < FRESH_S


class SharedAnswers:
    """The newest answers, and those that are being made."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, _Answer[Any]] = {}

    async def get(
        self, vhosts: Collection[OpenVhost], key: Hashable, make: Callable[[], Awaitable[T]]
    ) -> T:
        """An answer about vhosts, which is made unless there is one.

        Args:
            key: what is asked.
        """
        if sum(len(vhost.shard.vhost.queues) for vhost in vhosts) < MANY:
            return await make()
        seen = tuple((id(vhost), vhost.shard.vhost.version) for vhost in vhosts)
        for old in [one for one, answer in self._answers.items() if not answer.is_fresh]:
            del self._answers[old]
        answer = self._answers.get((seen, key))
        if answer is None:
            answer = _Answer(make())
            if len(self._answers) < MOST:
                self._answers[seen, key] = answer
        found: T = await asyncio.shield(answer.task)
        return found
