"""A process that writes batches to a ledger until it has BATCHES, also after a crash.

`python -m tests.e2e.ledger.worker FOLDER BATCHES`; it says `ready`, does its work, with upkeep
at a pace that makes everything happen at once, and says `done`.
"""

import sys
from pathlib import Path

from streaming.ledger.schema.table_setup import Retention
from streaming.ledger.upkeep.maintenance import Maintenance, Schedule
from streaming.ledger.write.ledger import Ledger
from tests.unit.ledger.builders import QUERY, a_batch_row, a_place, publish, tables_of

SCHEDULE = Schedule(
    checkpoint_commits=3,
    compaction_ms=1,
    compaction_least_files=4,
    log_cleanup_ms=1,
    vacuum_ms=1,
    vacuum_grace_ms=20,
)


def main(folder: Path, batches: int) -> None:
    root = a_place(folder)
    with Ledger(root, Retention(log_ms=5_000)) as ledger:
        maintenance = Maintenance(root, SCHEDULE, ledger.writers, pause_seconds=0.01)
        maintenance.start()
        last = ledger.last_batch(QUERY)
        print("ready", flush=True)  # noqa: T201 - the parent waits for it
        for batch in range(last.batch_id + 1 if last else 0, batches):
            rows = tables_of(batch, seqs=range(8 * batch, 8 * batch + 8))
            files = [
                publish(root, name, part, partition=task)
                for task, cut in enumerate((0, 3))
                for name, table in rows.items()
                for part in [table.slice(cut, 3 if cut == 0 else None)]
            ]
            ledger.commit(files, a_batch_row(batch, mean_bytes=float(batches)))
        maintenance.stop()
        if maintenance.last_error is not None:
            raise maintenance.last_error
    print("done", flush=True)  # noqa: T201 - the same


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
