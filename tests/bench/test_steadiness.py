"""What is said of a run early and late."""

import json
import os
from pathlib import Path

from streaming.bench.drift import Change, Steadiness


def test_batch_times_are_compared_without_the_start(tmp_path: Path) -> None:
    seconds = [9.0, 9.0, *[0.1] * 4, *[0.2] * 4]
    said = [json.dumps({"event": "batch", "seconds": {"stages": s, "commit": 0}}) for s in seconds]
    lines = [f"2026-01-01 12:00:00,000 INFO dlx: {line}" for line in said]
    (tmp_path / "job.log").write_text("\n".join(["not a line of ours", *lines]))

    assert Steadiness(tmp_path, lambda: None, lambda: None).changes() == [
        Change("batch_ms", 100, 200)
    ]


def test_what_runs_is_weighed_and_what_does_not_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "job.log").touch()
    steadiness = Steadiness(tmp_path, os.getpid, lambda: None)
    for _ in range(4):
        steadiness.look()

    [change] = [one for one in steadiness.changes() if one.name == "driver_mb"]
    assert change.early > 1
    assert not any(one.name.startswith("kafka") for one in steadiness.changes())
