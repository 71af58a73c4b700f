"""Attack a broker in memory for a while: `python -m tests.attack --seconds 3600`."""

import argparse
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack.attacks import ATTACKS
from tests.attack.siege import DefeatedError, besieged


def main() -> int:
    """Attack, and say how often and how much memory it took; exit status 1 if the broker lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", action="append", choices=[each.__name__ for each in ATTACKS])
    options = parser.parse_args()
    chosen = [each for each in ATTACKS if not options.kind or each.__name__ in options.kind]
    done: Counter[str] = Counter()
    deadline_s = time.monotonic() + options.seconds
    with TemporaryDirectory() as folder, besieged(Path(folder)) as siege:
        for seed in count(options.first):
            for attack in chosen:
                if time.monotonic() > deadline_s:
                    shown = ", ".join(f"{name} {number}" for name, number in sorted(done.items()))
                    sys.stdout.write(f"{shown}; at most {siege.largest_bytes >> 20} MB\n")
                    return 0
                try:
                    siege.run(attack, seed)
                except DefeatedError as error:
                    sys.stdout.write(f"{error}\n")
                    return 1
                done[attack.__name__] += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
