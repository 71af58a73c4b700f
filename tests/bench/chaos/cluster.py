"""`dlx bench chaos --cluster`: the same comparison with the job's tasks on a Spark cluster.

Checkpoint and tables are in MinIO, topics on three Kafka brokers. Executors, driver, workers and
brokers are killed in turn at random instants, and the store stops answering for 20 seconds. Workers
share nothing with the driver (`tests.fixtures.strangers`): they have Spark's distribution and a
bare Python.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from streaming.embedded.cluster import LocalCluster
from tests.bench.chaos.log import LogShape
from tests.bench.chaos.run import DEFAULT_SHAPE, ChaosJob, ChaosResult, run_chaos
from tests.bench.chaos.three_kafkas import ThreeKafkas
from tests.bench.output import say
from tests.fixtures.minio import Minio
from tests.fixtures.strangers import Strangers

EXECUTOR: Final = "CoarseGrainedExecutorBackend"
KINDS: Final = ("executor", "driver", "worker", "Kafka broker", "object store")
EXECUTOR_START_S: Final = 1_800.0
"""On a machine that is busy with other work, a driver alone takes minutes to start."""

KAFKA_IS_DOWN_S: Final = 5.0
STORE_IS_AWAY_S: Final = 20.0
HIDDEN: Final = ("kafka", "jobs", "store")


class Strikes:
    """Kills a part of a running job on a cluster, and replaces it.

    Args:
        kafka: the brokers to kill, if they are among the kinds.
        kinds: what to kill, out of `KINDS`.

    Attributes:
        done: how often each kind was killed.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        kafka: ThreeKafkas | None = None,
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self._cluster = cluster
        self._kafka = kafka
        self._kinds = kinds
        self.done: Counter[str] = Counter()

    def strike(self, job: ChaosJob, number: int, chances: random.Random) -> str:
        """Kill a part, and return its name; each kind has its turn, in random order."""
        turn, place = divmod(number, len(self._kinds))
        kind = random.Random(turn).sample(self._kinds, len(self._kinds))[place]
        match kind:
            case "driver":
                job.process.kill()
                job.process.start()
            case "executor":
                self._kill_executor()
            case "worker":
                spark = self._cluster.spark
                spark.kill_worker(chances.choice(sorted(spark.workers)))
                self._cluster.add_worker()
            case "object store":  # its objects may be in memory, so it is not killed
                store = psutil.Process(self._cluster.store.pid)
                store.suspend()
                time.sleep(STORE_IS_AWAY_S)
                store.resume()
            case _:
                assert self._kafka is not None, "a kind that needs brokers"
                broker = self._kafka.nodes[chances.choice(sorted(self._kafka.nodes))]
                broker.kill()
                time.sleep(chances.uniform(0, KAFKA_IS_DOWN_S))
                broker.start()
        self.done[kind] += 1
        return kind

    def _kill_executor(self) -> None:
        """Kill an executor, as soon as there is one.

        Raises:
            RuntimeError: none started in time.
        """
        deadline_s = time.monotonic() + EXECUTOR_START_S
        while not (found := self._executors()):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no executor started within {EXECUTOR_START_S:g} s")
            time.sleep(0.1)
        with suppress(psutil.NoSuchProcess):
            found[0].kill()

    def _executors(self) -> list[psutil.Process]:
        found = []
        for worker in self._cluster.spark.workers.values():
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(worker.pid).children(recursive=True)
                found += [each for each in children if EXECUTOR in " ".join(each.cmdline())]
        return found


def run_cluster_chaos(
    root: Path,
    messages: int,
    kills: int,
    *,
    seed: int = 1,
    shape: LogShape = DEFAULT_SHAPE,
    report: Callable[[str], None] = say,
) -> ChaosResult:
    """Run the comparison on a cluster of two workers; see `run_chaos`.

    Raises:
        EmbeddedError: this user cannot make mount namespaces, or Go cannot build MinIO.
    """
    with (
        ThreeKafkas(root / "kafka") as kafka,
        Minio(root / "store") as store,
        Strangers(root / "cluster", [root / each for each in HIDDEN], store) as cluster,
    ):
        return run_chaos(
            root / "jobs",
            kafka.bootstrap_servers,
            messages,
            kills,
            seed=seed,
            report=report,
            cluster=cluster,
            strike=Strikes(cluster, kafka).strike,
            shape=shape,
        )
