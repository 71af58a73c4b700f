"""How figures change during a run."""

import json
import os
from pathlib import Path

from streaming.storage.location import Location
from tests.bench.load.drift import Change, Drift


def test_batch_times_are_compared_without_the_start(tmp_path: Path) -> None:
    seconds = [9.0, 9.0, *[0.1] * 4, *[0.2] * 4]
    said = [json.dumps({"event": "batch", "seconds": {"stages": s, "commit": 0}}) for s in seconds]
    lines = [f"2026-01-01 12:00:00,000 INFO dlx: {line}" for line in said]
    (tmp_path / "job.log").write_text("\n".join(["not a line of ours", *lines]))

    drift = Drift(tmp_path, Location(str(tmp_path)), lambda: None, lambda: None)
    assert drift.changes() == [Change("batch_ms", 100, 200)]


def test_running_processes_are_measured_and_others_omitted(tmp_path: Path) -> None:
    (tmp_path / "job.log").touch()
    drift = Drift(tmp_path, Location(str(tmp_path)), os.getpid, lambda: None)
    for _ in range(4):
        drift.sample()

    [change] = [one for one in drift.changes() if one.name == "driver_mb"]
    assert change.early > 1
    assert not any(one.name.startswith("kafka") for one in drift.changes())
