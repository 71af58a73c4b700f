"""Long lists that several clients ask for at once are made once.

An answer is given again for a second to whoever may see the same, while nothing is declared or
deleted meanwhile: its counts are a second old at most. RabbitMQ's are up to five seconds old.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final
from weakref import WeakKeyDictionary

from streaming.amqp.vhosts import OpenVhost

FRESH_S: Final = 1.0


class QueueNames:
    """The names of the queues of each vhost in order, sorted again when something is declared."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[OpenVhost, tuple[int, list[str]]] = WeakKeyDictionary()

    def of(self, vhost: OpenVhost) -> list[str]:
        """The names."""
        version = vhost.shard.vhost.version
        known = self._known.get(vhost)
        if known is None or known[0] != version:
            known = self._known[vhost] = version, sorted(vhost.shard.vhost.queues)
        return known[1]


class SharedAnswers:
    """The newest answer, and the one that is being made."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._task: asyncio.Task[bytes] | None = None
        self._done_s = 0.0

    async def get(self, key: Hashable, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The answer of that key, which is made unless there is one.

        Args:
            key: differs if anything is declared, or the user sees anything else.
        """
        task = self._task
        if task is None or key != self._key or not self._is_fresh(task):
            task = self._task = asyncio.get_running_loop().create_task(self._made(make))
            self._key = key
        return await asyncio.shield(task)

    def _is_fresh(self, task: "asyncio.Task[bytes]") -> bool:
        if not task.done():
            return True
        failed = task.cancelled() or task.exception() is not None
        return not failed and asyncio.get_running_loop().time() - self._done_s < FRESH_S

    async def _made(self, make: Callable[[], Awaitable[bytes]]) -> bytes:
        answer = await make()
        self._done_s = asyncio.get_running_loop().time()
        return answer
