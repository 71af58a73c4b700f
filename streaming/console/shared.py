"""Pages are computed once for all who ask at once, and a slow one is answered before it is ready.

20 viewers --the same page after the same batch--> one computation --> 20 answers
a page that takes longer --> an answer that says so, and fetches the page when it is ready
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from starlette.responses import Response

FRESH_S: Final = 5.0
"""How long a page is kept: it also says how long ago things were."""

MAX_KEPT: Final = 64


class _Work:
    """A page that is being computed, or was.

    Attributes:
        is_owed: somebody was told that it is not ready.
    """

    def __init__(self, version: Hashable, compute: Callable[[], Awaitable[Response]]) -> None:
        self.version = version
        self.is_owed = False
        self.done_s = 0.0
        self.task = asyncio.create_task(self._run(compute))

    async def _run(self, compute: Callable[[], Awaitable[Response]]) -> Response:
        try:
            return await compute()
        finally:
            self.done_s = time.monotonic()

    def is_usable(self, version: Hashable | None) -> bool:
        """Whether it answers somebody who asks now."""
        if not self.task.done():
            return True
        if self.task.cancelled() or self.task.exception() is not None:
            return False
        if time.monotonic() - self.done_s > FRESH_S:
            return False
        is_current = version is not None and version == self.version
        return self.is_owed or (is_current and self.task.result().status_code == 200)  # noqa: PLR2004


class SharedPages:
    """The pages that are being computed, and the latest; used by one event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Work] = OrderedDict()

    async def get(
        self,
        key: Hashable,
        version: Hashable | None,
        compute: Callable[[], Awaitable[Response]],
        patience_s: float | None = None,
    ) -> Response | None:
        """Return a page; it is computed unless it is known, or somebody has begun to.

        Args:
            key: who asks for what.
            version: of what it is computed from; None: unknown, so it is not kept.
            patience_s: how long to wait; None: until it is ready.

        Returns:
            The page; None if it is not ready.
        """
        work = self._known.get(key)
        if work is None or not work.is_usable(version):
            work = self._known[key] = _Work(version, compute)
            self._known.move_to_end(key)
            while len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
        await asyncio.wait([work.task], timeout=patience_s)  # if it is left, the work goes on
        if not work.task.done():
            work.is_owed = True
            return None
        found = work.task.result()
        work.is_owed = False
        return Response(found.body, found.status_code, dict(found.headers))

    def forget(self) -> None:
        """Forget all pages: something has been changed."""
        self._known.clear()
