"""`dlx bench chaos --cluster`: the same comparison with the job's tasks on a Spark cluster.

Checkpoint and tables are in an S3-compatible store, topics on three Kafka brokers. Executors,
driver, workers and brokers are killed in turn at random instants, and the store stops answering for
20 seconds. Each worker runs in a mount
namespace of its own, in which the folders that it must not need are empty: the code of this
checkout, Kafka's data, and all folders of the jobs.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.object_store_server import ObjectStoreServer
from streaming.embedded.spark_cluster import SparkCluster
from streaming.ledger.storage import Place
from tests.bench.chaos.run import ChaosJob, ChaosResult, run_chaos
from tests.bench.chaos.three_kafkas import ThreeKafkas
from tests.bench.output import say

CHECKOUT: Final = Path(__file__).resolve().parents[3]
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
BUCKET: Final = "dlx-chaos"
KINDS: Final = ("executor", "driver", "worker", "Kafka broker", "object store")
KAFKA_IS_DOWN_S: Final = 5.0
STORE_IS_AWAY_S: Final = 20.0
_EMPTY: Final = (
    'while [ "$1" != -- ]; do mount -t tmpfs none "$1" || exit 1; shift; done; shift; exec "$@"'
)


def can_isolate() -> bool:
    """Whether this user may make mount namespaces, which takes root on Linux."""
    if shutil.which("unshare") is None:
        return False
    tried = ("unshare", "--mount", "--propagation", "private", "true")
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def with_empty(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return the start of a command that runs where these folders are empty."""
    namespace = ("unshare", "--mount", "--propagation", "private")
    return (*namespace, "sh", "-c", _EMPTY, "sh", *map(str, folders), "--")


class Strikes:
    """Kills a part of a running job on a cluster, and replaces it."""

    def __init__(
        self,
        cluster: SparkCluster,
        kafka: ThreeKafkas,
        store: ObjectStoreServer,
        worker: tuple[str, ...],
    ) -> None:
        self._cluster = cluster
        self._kafka = kafka
        self._store = store.process
        self._worker = worker

    def strike(self, job: ChaosJob, number: int, chances: random.Random) -> str:
        """Kill a part, and return its name; each kind has its turn, in random order."""
        turn, place = divmod(number, len(KINDS))
        kind = random.Random(turn).sample(KINDS, len(KINDS))[place]
        match kind:
            case "driver":
                job.process.kill()
                job.process.start()
            case "executor":
                for process in self._executors()[:1]:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            case "worker":
                self._cluster.kill_worker(chances.choice(sorted(self._cluster.workers)))
                self._cluster.add_worker(self._worker)
            case "object store":  # its objects are in memory, so it is stopped instead of killed
                self._store.send_signal(signal.SIGSTOP)
                time.sleep(STORE_IS_AWAY_S)
                self._store.send_signal(signal.SIGCONT)
            case _:
                broker = self._kafka.nodes[chances.choice(sorted(self._kafka.nodes))]
                broker.kill()
                time.sleep(chances.uniform(0, KAFKA_IS_DOWN_S))
                broker.start()
        return kind

    def _executors(self) -> list[psutil.Process]:
        found = []
        for worker in self._cluster.workers.values():
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
    report: Callable[[str], None] = say,
) -> ChaosResult:
    """Run the comparison on a cluster of two workers; see `run_chaos`.

    Raises:
        EmbeddedError: this user cannot make mount namespaces.
    """
    if not can_isolate():
        raise EmbeddedError(
            "workers need mount namespaces of their own, which only root can make: run as root on "
            "Linux, with `unshare` installed"
        )
    private = [root / "kafka", root / "jobs"]
    for folder in private:
        folder.mkdir()
    worker = with_empty([CHECKOUT / "streaming", CHECKOUT / "topology", *private])
    with (
        ThreeKafkas(root / "kafka") as kafka,
        ObjectStoreServer() as store,
        SparkCluster(root / "spark", workers=0) as cluster,
    ):
        store.make_bucket(BUCKET)
        for _ in range(2):
            cluster.add_worker(worker)
        return run_chaos(
            root / "jobs",
            kafka.bootstrap_servers,
            messages,
            kills,
            seed=seed,
            report=report,
            master=cluster.master,
            strike=Strikes(cluster, kafka, store, worker).strike,
            store=Place(f"s3://{BUCKET}", store.options),
        )
