"""Exactly once: a job that is killed again and again leaves what an undisturbed one leaves.

One log, two jobs, each with a checkpoint, tables and outbound topics of its own. The first runs
in peace; the second is killed (SIGKILL, the JVM and every Python process at once) at random
instants and started again. With `clock = event` and one partition the outcome does not depend on
where batches are cut, so the tables, `batch_id` and file places aside, and the outbound records
after dropping repeats, must be equal.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from streaming.bench.chaos_comparison import COMPARED, compare, rows_of
from streaming.bench.chaos_job import ChaosJob
from streaming.bench.chaos_log import produce_log


class ChaosResult(NamedTuple):
    """What came of it; `differences` names tables and topics that are not equal.

    `kills` were done, and `wanted` asked for: the log may be read before the last of them is due.
    """

    messages: int
    kills: int
    wanted: int
    rows: dict[str, int]
    differences: list[str]

    @property
    def findings(self) -> list[str]:
        """What is wrong, in words; nothing, if the run shows what it is to show."""
        found = [f"differs: {difference}" for difference in self.differences]
        if self.kills < self.wanted:
            found.append(
                f"the log was read after {self.kills} of {self.wanted} kills: more --messages "
                "leave time for all of them"
            )
        return found


def run_chaos(
    root: Path,
    servers: str,
    messages: int,
    kills: int,
    *,
    seed: int = 1,
    say: Callable[[str], None] = print,
) -> ChaosResult:
    """Run both jobs and compare.

    Args:
        root: an empty folder.
        servers: a Kafka without topics of these names.
        kills: how often the second job is killed.
    """
    end = produce_log(servers, messages)
    batch_rows = max(200, end // (2 * kills + 4))
    say(f"{end} records; batches of {batch_rows}")
    peaceful = ChaosJob(root, servers, "peace", batch_rows * 3)
    peaceful.start()
    peaceful.wait(end)
    peaceful.stop()
    say("undisturbed run done")
    chances = random.Random(seed)  # noqa: S311 - not for secrets
    hunted = ChaosJob(root, servers, "chaos", batch_rows)
    done = 0
    hunted.start()
    while done < kills:
        before = hunted.read_to()
        alive = time.monotonic()
        goal = before + 1 if done % 3 else 0  # two of three kills come after some progress
        delay = chances.uniform(0.0, 2.5)

        def due(goal: int = goal, alive: float = alive, delay: float = delay) -> bool:
            waited = time.monotonic() - alive
            return hunted.read_to() >= goal and waited > delay + (8 if goal == 0 else 0)

        if hunted.wait(end, due):
            break
        hunted.kill()
        done += 1
        say(f"kill {done} of {kills} at offset {hunted.read_to()} of {end}")
        hunted.start()
    hunted.wait(end)
    hunted.stop()
    differences = compare(peaceful, hunted, servers)
    rows = {table: len(rows_of(peaceful.tables, table)) for table in COMPARED}
    return ChaosResult(messages, done, kills, rows, differences)
