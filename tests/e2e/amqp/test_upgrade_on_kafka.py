"""Job and front are replaced by those of another broker core, in the order that is documented."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from streaming.broker.config import CORE_VERSION
from streaming.queries.audit.balance import balance
from tests.bench.processes import Process
from tests.e2e.amqp.test_on_kafka import declare, fill, ready
from tests.e2e.amqp.test_rebuild_on_kafka import ends_of_log, follows, position
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
def test_in_any_order_of_an_upgrade_each_part_says_what_it_needs_before_it_does_harm(
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

    with monkeypatch.context() as upgraded:
        next_core(upgraded, tmp_path / "new")
        refused, _, errors = verify(fronts)
        assert refused == 2
        assert f"broker core {CORE_VERSION}; this program has 1000" in errors
        alike, [whole], _ = verify(fronts, "--any-terms")
        assert (alike, whole["begin"], whole["end"]) == (0, 0, int(snapshot.stem))
        assert whole["parting"] is None
        # the new front is too early: the old job is there
        too_early = fronts.start()
        wait_until(lambda: ends(too_early), too_early.log_end, 60.0)
        assert f"has broker core {CORE_VERSION}, and this front 1000" in too_early.log.read_text()

    # it is too early again: the old job, which is not there, has not read the log to its end
    old_job.kill()
    old_front = fronts.start()
    channel = fronts.connect(old_front).channel()
    channel.confirm_delivery()
    fill(channel, 10, "m")
    old_front.stop()
    end = ends_of_log(fronts)[1]
    with monkeypatch.context() as upgraded:
        next_core(upgraded, tmp_path / "newer")
        channel = fronts.connect(fronts.start()).channel()
        channel.confirm_delivery()
        assert (ready(channel, "work"), ready(channel, "dead")) == (29, 1)
        fill(channel, 10, "n")

    old_job = fronts.start_job()
    wait_until(lambda: ends(old_job), old_job.log_end, 600.0, 0.5)
    said = old_job.log.read_text()
    assert f"broker core 1000; this program has {CORE_VERSION}. Upgrade this program" in said
    assert position(fronts) == end

    with monkeypatch.context() as upgraded:
        upgraded.chdir(tmp_path / "newer")
        upgraded.setenv("PYTHONPATH", str(tmp_path / "newer"))
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
    assert {row.queue: row.ready for row in found.queues if row.queue} == {"work": 49, "dead": 1}
