"""Compare brokers: `python -m tests.sessions --seeds 0:1000 --reference amqp://... --url amqp://...`.

Both URLs name a vhost that nobody else uses. Each difference is shortened and printed; the exit
status is 1 if there is one. With --print, a session is only shown.
"""

import argparse
import sys
import time

from tests.sessions.comparing import compare, shorten
from tests.sessions.kinds import KINDS, session
from tests.sessions.steps import LENGTH


def main() -> int:
    """Compare two brokers over a range of seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.sessions", description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="FIRST:END")
    parser.add_argument("--length", type=int, default=LENGTH, help="steps of a session")
    parser.add_argument("--kind", choices=KINDS, default="classic", help="what they are about")
    parser.add_argument("--reference", help="a RabbitMQ")
    parser.add_argument("--url", help="the broker that is compared with it")
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
    differences = 0
    began_s = time.monotonic()
    seeds = range(int(first), int(end or int(first) + 1))
    for seed in seeds:
        steps = session(seed, options.length, frozenset(options.without), options.kind)
        if options.print:
            sys.stdout.write("\n".join(map(str, steps)) + "\n")
            continue
        found = compare(steps, options.reference, options.url)
        if found is not None and not options.as_they_are:
            found = shorten(
                list(found.steps), lambda some: compare(some, options.reference, options.url)
            )
        if found is None:
            continue
        differences += 1
        sys.stdout.write(f"== seed {seed}\n{found}\n")
        sys.stdout.flush()
    if not options.print:
        spent_s = time.monotonic() - began_s
        text = f"{len(seeds)} sessions, {differences} differ, {spent_s:.0f} s\n"
        sys.stdout.write(text)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
