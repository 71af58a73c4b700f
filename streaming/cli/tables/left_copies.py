"""What may still hold data that `dlx tables erase` erased from the tables.

plans of these letters, checkpoints kept by a rebuild  -->  named; removed with --yes
Kafka's records, other topics, exports, backups        -->  named
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streaming.user_folders import EDITS, plans_folder

if TYPE_CHECKING:
    from streaming.contents.erasure import Erased, KafkaRecords

_MAX_NAMED: Final = 10
UNKNOWN: Final = (
    "dlx does not search the table quarantine, the history of `dlx query` and the console's saved "
    "views, and does not know of exports, plans written with --out, plans of other users and "
    "machines, backups, and what consumers received: look for them yourself"
)


def plans_of(erased: "Erased") -> list[Path]:
    """This user's plans with a letter that was erased, and those that cannot be read.

    Plans of other tables have the numbers of other letters. With the edits that the console keeps
    beside a plan: they hold bodies too.
    """
    from streaming.protocol.sealed_plan import InvalidPlanError, read_plan

    files = sorted(plans_folder().glob("*.json"))
    edits = sorted(plans_folder().glob(f"*{EDITS}"))
    found = []
    for file in files:
        try:
            plan = read_plan(file.read_bytes(), str(file))
        except (InvalidPlanError, OSError):
            found.append(file)
            continue
        if plan.tables_id != erased.tables_id:
            continue
        copies = {(plan.vhost, letter.lane, letter.copy_id) for letter in plan.letters}
        stored = {letter.stored.message for letter in plan.letters if letter.stored is not None}
        if copies & erased.copies or stored & erased.keys:
            found.append(file)
    kept = {file.stem for file in files} - {file.stem for file in found}
    return found + [file for file in edits if file.stem not in kept]


def say_and_remove(erased: "Erased", config: Path | None, *, yes: bool) -> Iterator[str]:
    """Yield a line for each place that may still hold what was erased; remove those of dlx.

    Args:
        config: the job's configuration, if it is known.
        yes: remove plans and kept checkpoints; without it, only name them.
    """
    for file in plans_of(erased):
        why = "it has these letters, or cannot be read"
        yield _removed(file, f"the plan {file}", why, yes=yes)
    if config is None:
        yield "name the job with --config FILE to find the checkpoints that rebuilds have kept"
    else:
        yield from _checkpoints(config, yes=yes)
    for records in erased.records[:_MAX_NAMED]:
        yield _in_kafka(records)
    if len(erased.records) > _MAX_NAMED:
        yield f"and in {len(erased.records) - _MAX_NAMED} more partitions"
    if erased.records:
        yield "topics of deliveries and dead letters may hold copies until their own retention"
    yield UNKNOWN


def _removed(path: Path, what: str, why: str, *, yes: bool) -> str:
    """Remove a file or folder, and say so; a failure is said too, so that the rest is named."""
    if not yes:
        return f"would remove {what}: {why}"
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"cannot remove {what}, so remove it yourself ({error.strerror}): {why}"
    return f"removed {what}: {why}"


def _checkpoints(config: Path, *, yes: bool) -> Iterator[str]:
    from streaming.config import read_config
    from streaming.config.loading import rooted
    from streaming.config.types import is_url
    from streaming.pipeline.rebuild.put_in_place import kept_checkpoints

    job = rooted(read_config(config), config.absolute().parent).job
    if is_url(job.checkpoint_location):
        yield (
            f"checkpoints that rebuilds have kept are beside {job.checkpoint_location}, with names "
            "that end in .before-rebuild-N, and hold routing keys: remove them there"
        )
        return
    for path in kept_checkpoints(Path(job.checkpoint_location)):
        why = "a rebuild kept this checkpoint, which holds routing keys"
        yield _removed(path, str(path), why, yes=yes)


def _in_kafka(records: "KafkaRecords") -> str:
    return (
        f"Kafka may still have {records.number} records: topic {records.topic}, partition "
        f"{records.partition}, offsets {records.first} to {records.last}; they go with the topic's "
        "retention, or with kafka-delete-records"
    )
