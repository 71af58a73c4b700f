"""Compare brokers: `python -m tests.sessions --seeds 0:1000 --reference amqp://... --url amqp://...`.

Both URLs name a vhost that nobody else uses; with several workers, `{}` in them is the number of
each. Each difference is shortened and printed; the exit status is 1 if there is one. With --print,
a session is only shown.
"""

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from tests.sessions.comparing import compare, shorten
from tests.sessions.kinds import KINDS, session
from tests.sessions.managing import http_api
from tests.sessions.player import Player
from tests.sessions.steps import LENGTH, Step


def main() -> int:
    """Compare two brokers over a range of seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.sessions", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="FIRST:END")
    parser.add_argument("--length", type=int, default=LENGTH, help="steps of a session")
    parser.add_argument("--kind", choices=KINDS, default="classic", help="what they are about")
    parser.add_argument("--reference", help="a RabbitMQ")
    parser.add_argument("--url", help="the broker that is compared with it")
    parser.add_argument("--reference-api", help="its management API, for `managed`")
    parser.add_argument("--api", help="that of the other")
    parser.add_argument("--workers", type=int, default=1, help="how many sessions at a time")
    parser.add_argument("--print", action="store_true", help="print the sessions, play nothing")
    parser.add_argument("--as-they-are", action="store_true", help="do not shorten")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        help="a queue argument or kind of step to leave out",
    )
    options = parser.parse_args()
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    sessions = {
        seed: session(seed, options.length, frozenset(options.without), options.kind)
        for seed in seeds
    }
    if options.print:
        for steps in sessions.values():
            sys.stdout.write("\n".join(map(str, steps)) + "\n")
        return 0
    waiting: SimpleQueue[tuple[int, list[Step]]] = SimpleQueue()
    for each in sessions.items():
        waiting.put(each)
    began_s = time.monotonic()
    with ThreadPoolExecutor(options.workers) as workers:
        counts = workers.map(
            lambda number: _compare_all(
                partial(_player, options.reference.format(number), options.reference_api),
                partial(_player, options.url.format(number), options.api),
                waiting,
                as_they_are=options.as_they_are,
            ),
            range(options.workers),
        )
        differences = sum(counts)
    spent_s = time.monotonic() - began_s
    text = f"{len(seeds)} sessions, {differences} differ, {spent_s:.0f} s\n"
    sys.stdout.write(text)
    return 1 if differences else 0


def _compare_all(
    reference: Callable[[], Player],
    other: Callable[[], Player],
    waiting: SimpleQueue[tuple[int, list[Step]]],
    *,
    as_they_are: bool,
) -> int:
    """Play the sessions that wait, as long as there are any; return how many differ."""
    differences = 0
    with suppress(Empty):
        while True:
            seed, steps = waiting.get_nowait()
            found = compare(steps, reference, other)
            if found is not None and not as_they_are:
                found = shorten(list(found.steps), lambda some: compare(some, reference, other))
            if found is None:
                continue
            differences += 1
            sys.stdout.write(f"== seed {seed}\n{found}\n")
            sys.stdout.flush()
    return differences


def _player(url: str, api: str | None) -> Player:
    return Player(url, ask=None if api is None else http_api(api))


if __name__ == "__main__":
    sys.exit(main())
