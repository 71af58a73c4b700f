"""Job and front are replaced by those of another broker core, in the order that is documented."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from streaming.broker.config import CORE_VERSION
from streaming.queries.audit.balance import balance
from tests.bench.processes import Process
from tests.e2e.amqp.test_on_kafka import declare, fill, ready
from tests.e2e.amqp.test_rebuild_on_kafka import dlx, follows
from tests.e2e.amqp.test_verify import verify
from tests.fixtures.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


def next_core(monkeypatch, folder: Path) -> None:
    """Let processes from here on run a copy of this program whose core has the next version."""
    for name in ("streaming", "topology"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "streaming" / "broker" / "config.py"
    text = file.read_text()
    changed = text.replace(f"CORE_VERSION: Final = {CORE_VERSION}", "CORE_VERSION: Final = 1_000")
    assert changed != text
    file.write_text(changed)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def ends(process: Process) -> bool:
    """Whether a process has ended by itself."""
    try:
        process.check()
    except RuntimeError:
        return True
    return False


@pytest.mark.long
def test_in_the_order_of_an_upgrade_nothing_is_refused_and_in_another_the_job_says_what_it_needs(
    fronts, monkeypatch, tmp_path
):
    old_front, old_job = fronts.start(), fronts.start_job()
    channel = fronts.connect(old_front).channel()
    declare(channel)
    fill(channel, 20)
    taken = [channel.basic_get("work")[0].delivery_tag for _ in range(5)]
    channel.basic_reject(taken[0], requeue=False)
    follows(fronts, old_job)
    old_front.stop()  # it leaves a snapshot at the end of its log
    [snapshot] = (fronts.root / "checkpoints").rglob("*.snapshot")
    end = int(snapshot.stem)

    next_core(monkeypatch, tmp_path / "new")
    refused, _, errors = verify(fronts)
    assert refused == 2
    assert f"broker core {CORE_VERSION}; this program has 1000" in errors
    alike, [whole], _ = verify(fronts, "--any-terms")
    assert (alike, whole["begin"], whole["end"], whole["parting"]) == (0, 0, end, None)

    # the new front is too early: the old job, which has read all that the old one wrote, stops
    new_front = fronts.start()
    channel = fronts.connect(new_front).channel()
    channel.confirm_delivery()
    assert (ready(channel, "work"), ready(channel, "dead")) == (19, 1)
    fill(channel, 10, "n")
    wait_until(lambda: ends(old_job), old_job.log_end, 600.0, 0.5)
    assert f"broker core 1000; this program has {CORE_VERSION}. Upgrade this program" in (
        old_job.log.read_text()
    )
    new_job = fronts.start_job()
    wait_until(lambda: ends(new_job), new_job.log_end, 600.0, 0.5)
    assert "dlx doctor explain unfinished-batch" in new_job.log_end()
    dlx(fronts, "checkpoint", "rebuild", "--replace")

    new_job = fronts.start_job()
    follows(fronts, new_job)
    fill(channel, 10, "o")
    follows(fronts, new_job)
    new_job.stop()
    status, [rest], _ = verify(fronts, "--from", str(end), "--against", str(end))
    assert (status, rest["begin"], rest["parting"]) == (0, end, None)
    with closing(fronts.tables()) as tables:
        found = balance(tables, whole=True)
    assert found.findings == []
    assert {row.queue: row.ready for row in found.queues if row.queue} == {"work": 39, "dead": 1}
