"""`dlx reset`: lists what dlx has left on this machine and in Kafka, and removes it on request.

Only what dlx itself has made is removed, by its name: a folder that holds anything else stays.
"""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import typer

from streaming.cli.command_group import ROOT
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.listing.table import Column, Listing, print_listing
from streaming.cli.listing.view import OutputOptions, record
from streaming.cli.options import DEFAULT_FILE, ConfigFile
from streaming.user_folders import (
    demo_folder,
    plans_folder,
    user_cache_folder,
    user_state_folder,
)
from topology.errors import DlxError
from topology.suggestions import did_you_mean

if TYPE_CHECKING:
    from streaming.config import JobConfig

What = Literal[
    "tables",
    "checkpoint",
    "topics",
    "kafka",
    "logs",
    "demo",
    "plans",
    "state",
    "cache",
    "environment",
]

CHOICES: Final = get_args(What)
TIMEOUT_S: Final = 10
LISTING: Final = Listing(
    (
        Column("what", 0),
        Column("size", 0),
        Column("where", 0),
    )
)

_CHECKPOINT: Final = (
    *("metadata", ".metadata.crc", "commits", "offsets", "sources", "state"),
    *("dlx.json", "dlx.lock", "batches.json", "flow.json", "failing.json"),
)
_KAFKA: Final = ("data", "data.new", "logs", "lock", "ports.json", "broker.properties")
_LOGS: Final = ("*.log", "*.log.*", "*.out", "work")


@dataclass(frozen=True)
class Item:
    """Something that can be removed.

    Attributes:
        size: as people read it.
        remove: removes it.
    """

    what: What
    where: str
    size: str
    remove: Callable[[], None]


@record
def reset(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="WHAT",
            help="tables, checkpoint, topics, kafka, logs, demo, plans, state, cache or "
            "environment; may be repeated. Default: all.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it. There is no way back.")] = False,
    config: ConfigFile = None,
    view: OutputOptions,
) -> int:
    """List what dlx has left here, and remove it with --yes.

    Of a job, that of --config or ./dlx.toml: the tables, the checkpoint with those that rebuilds
    have kept, its topics, the data of the Kafka of `--with-kafka`, and the logs. Of this user: the
    demo, plans of redrives, the history of `dlx query` and the console's saved views, the cache of
    jars and builds, and the environment of this checkout. dlx.toml and your definitions always
    stay.

    Exit status: 0, 1 if something could not be removed, 2 if the job runs.
    """
    for name in only or ():
        if name not in CHOICES:
            what = f"there is no {name!r}{did_you_mean(name, CHOICES)}: {', '.join(CHOICES)}"
            raise typer.BadParameter(what, param_hint="--only")
    items = [
        item
        for item in _items(config, topics=not only or "topics" in only)
        if not only or item.what in only
    ]
    rows = [{"what": each.what, "size": each.size, "where": each.where} for each in items]
    print_listing(LISTING, rows, view, nothing="nothing to remove")
    if not items:
        return EXIT_OK
    if not yes:
        if view.output == "table":
            print("\nnothing was removed; --yes removes all of this, --only WHAT a part of it")
        return EXIT_OK
    failed = False
    for item in items:
        try:
            item.remove()
        except (OSError, DlxError) as error:
            failed = True
            print(f"{item.what}: not removed: {error}")
        else:
            print(f"{item.what}: removed")
    return EXIT_FINDINGS if failed else EXIT_OK


def _items(config: Path | None, *, topics: bool) -> Iterator[Item]:
    """What there is, in the order in which it is removed; topics only if Kafka is to be asked."""
    file = config or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    if file is not None:
        yield from _items_of_job(file, topics=topics)
    demo = demo_folder()
    if demo.exists():
        _refuse_running(demo / "kafka" / "lock", demo)
        yield _folder("demo", demo, lambda: _remove([demo, user_state_folder() / "last-demo"]))
    state = user_state_folder()
    yield from _parts("plans", plans_folder(), plans_folder().glob("r-*"))
    yield from _parts("state", state, [state / "query-history", state / "console"])
    cache = [path for path in _children(user_cache_folder()) if path != demo]
    if cache:
        yield _folder("cache", user_cache_folder(), lambda: _remove(cache), cache)
    environment = ROOT / ".venv"
    if (ROOT / "requirements.lock").is_file() and environment.exists():
        yield _folder("environment", environment, lambda: _remove([environment]))


def _items_of_job(file: Path, *, topics: bool) -> Iterator[Item]:
    from streaming.config import load_config
    from streaming.config.types import is_url
    from streaming.job_locations import FRONT_FOLDER
    from streaming.made_vhosts import with_made_vhosts
    from streaming.pipeline.rebuild.put_in_place import kept_checkpoints
    from streaming.queries.table_info import NAMES

    config = load_config(file)
    is_remote = is_url(config.job.checkpoint_location)
    checkpoint = Path(config.job.log_dir if is_remote else config.job.checkpoint_location)
    kafka = file.absolute().parent / "kafka"
    if is_remote:
        print(
            f"{config.job.checkpoint_location} is not on this machine: stop the job, and remove "
            "the checkpoint there, and those beside it that rebuilds have kept (.before-rebuild-N)",
            file=sys.stderr,
        )
    _refuse_running(checkpoint / "dlx.lock", checkpoint)
    if is_url(config.job.tables_location):
        print(
            f"{config.job.tables_location} is not on this machine: remove the tables there",
            file=sys.stderr,
        )
    else:
        tables = Path(config.job.tables_location)
        yield from _parts("tables", tables, [tables / name for name in NAMES])
    if not is_remote and (checkpoint / "dlx.json").exists():
        yield from _parts("checkpoint", checkpoint, [checkpoint / name for name in _CHECKPOINT])
    if not is_remote:
        for kept in kept_checkpoints(checkpoint):
            yield _folder("checkpoint", kept, partial(_remove, [kept]))
    of_logs = checkpoint / FRONT_FOLDER  # without them, a front would refuse it
    if topics:
        yield from _topics(with_made_vhosts(config), kafka, of_logs)
    if (kafka / "ports.json").exists():
        _refuse_running(kafka / "lock", kafka)
        yield from _parts("kafka", kafka, [*(kafka / name for name in _KAFKA), of_logs])
    logs = Path(config.job.log_dir)
    yield from _parts("logs", logs, [path for name in _LOGS for path in logs.glob(name)])


def _parts(what: What, folder: Path, paths: Iterable[Path]) -> Iterator[Item]:
    """The parts of a folder that dlx has made, if there are any."""
    found = [path for path in paths if path.exists()]

    def remove() -> None:
        _remove(found)
        for one in {folder, *(path.parent for path in found)}:
            with suppress(OSError):  # something else is in it
                one.rmdir()

    if found:
        yield _folder(what, folder, remove, found)


def _folder(
    what: What, folder: Path, remove: Callable[[], None], parts: Iterable[Path] | None = None
) -> Item:
    from streaming.cli.doctor.machine import size_text

    size = sum(_size_bytes(part) for part in parts or [folder])
    return Item(what, str(folder), size_text(size), remove)


def _topics(config: "JobConfig", kafka: Path, of_logs: Path) -> Iterator[Item]:
    """The job's own topics, unless they are in the folder of its own Kafka.

    Args:
        of_logs: the folder with what fronts keep of the logs among them.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    from streaming.config import librdkafka_properties
    from streaming.protocol.addressing import alive_topic

    settings: dict[str, Any] = {**librdkafka_properties(config.kafka, os.environ), "log_level": 0}
    admin = AdminClient(settings)
    servers = ",".join(config.kafka.bootstrap_servers)
    try:
        known = admin.list_topics(
            timeout=min(config.kafka.connect_timeout_ms / 1000, TIMEOUT_S)
        ).topics
    except KafkaException:
        if not (kafka / "ports.json").exists():
            print(f"Kafka at {servers} does not answer: its topics are not listed", file=sys.stderr)
        return
    outbound = config.outbound_topics().values()
    own = {each.topic for each in config.inputs if each.mapping is None}
    names = own | {*config.log_topics().values()} | {*outbound}
    names |= {alive_topic(name) for name in outbound}
    found = sorted(names & known.keys())

    def remove() -> None:
        for name, future in admin.delete_topics(found, request_timeout=TIMEOUT_S).items():
            error = future.exception()
            if error is not None:
                raise DlxError(f"topic {name}: {error.args[0].str()}")
        _remove([of_logs])

    if found:
        yield Item("topics", f"{', '.join(found)} at {servers}", f"{len(found)} topics", remove)


def _refuse_running(lock: Path, place: Path) -> None:
    """Refuse to remove what a running program uses.

    Raises:
        DlxError: a job or a Kafka runs in the folder.
    """
    if not lock.exists():
        return
    with lock.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DlxError(f"{place} is in use: stop the job and its Kafka first") from None


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _size_bytes(path: Path) -> int:
    """The size of a file, or of all files below a folder; links are not followed."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                size += (Path(folder) / name).lstat().st_size
    return size


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
