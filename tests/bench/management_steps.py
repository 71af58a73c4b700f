"""How long a request of the API holds the event loop: `python -m tests.bench.management_steps`.

A confirm waits for the step of a request that runs when it is due. So what counts is the longest
step, in processor time, which other load on the machine does not change. 10,000 queues, in memory.
With ten requests at once it is what all of them do in one round of the loop.
"""

import asyncio
import base64
import sys
import time
from typing import Any, Final
from urllib.parse import urlsplit

from streaming.broker import commands
from streaming.management.app import Management
from streaming.management.memory import MemoryFront
from tests.amqp_client import memory_broker
from tests.bench.management import LIST, MIXES, PAGE, QUEUES
from topology.declarations import Queue

TIMES: Final = 10
PATHS: Final = (LIST, *dict.fromkeys((PAGE, *MIXES["pages"], *MIXES["sorted"])), "/api/vhosts")
SORTED: Final = tuple(
    f"/api/queues?page={page}&page_size=100&sort=messages" for page in range(1, 11)
)
"""Ten clients that ask for something different each."""

_AUTH: Final = b"Basic " + base64.b64encode(b"guest:guest")


async def ask(management: Management, path: str) -> None:
    """Make a request without a socket."""
    parts = urlsplit(path)
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(b"authorization", _AUTH)],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 15_672),
    }

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200, message

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    await management(scope, receive, send)


async def measure(management: Management, *paths: str) -> tuple[float, float]:
    """Processor time of requests and of the longest step, in milliseconds; the least of some."""
    found = []
    for _ in range(TIMES):
        steps: list[float] = []
        await asyncio.sleep(1.1)  # longer than an answer is shared

        async def step_by_step(steps: list[float] = steps) -> None:
            last_s = time.thread_time()
            while True:
                await asyncio.sleep(0)
                now_s = time.thread_time()
                steps.append(now_s - last_s)
                last_s = now_s

        watch = asyncio.ensure_future(step_by_step())
        await asyncio.sleep(0)
        began_s = time.thread_time()
        await asyncio.gather(*(ask(management, path) for path in paths))
        took_s = time.thread_time() - began_s
        await asyncio.sleep(0)
        watch.cancel()
        found.append((took_s * 1000, max(steps) * 1000))
    return min(took for took, _ in found), min(longest for _, longest in found)


async def main() -> int:
    """Measure every path and print it."""
    broker = memory_broker()
    for number in range(QUEUES):
        queue = Queue(f"q{number}")
        broker.do(broker.server.vhosts["/"], commands.DeclareQueue(queue=queue))
    management = Management(MemoryFront(broker))
    await management.sample()
    for path in PATHS:
        took_ms, longest_ms = await measure(management, path)
        _print(path, took_ms, longest_ms)
    for name, paths in (("ten lists", (LIST,) * 10), ("ten sorted pages", SORTED)):
        _print(name, *await measure(management, *paths))
    return 0


def _print(what: str, took_ms: float, longest_ms: float) -> None:
    print(f"{what}: {took_ms:.1f} ms, the longest step {longest_ms:.1f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
