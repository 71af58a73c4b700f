"""Rules between the tables of `dlx.toml`.

Each rule names the paths it depends on. If one of them could not be read, the rule is skipped: a
misspelt topic in `inputs[1]` must not also be reported as missing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import PurePath
from typing import Final, NamedTuple

from streaming.config.amqp import AmqpSettings, log_topic
from streaming.config.flow import FlowSettings, Relative
from streaming.config.inputs import InputSettings
from streaming.config.job import JobSettings, is_local
from streaming.config.kafka import KafkaSettings
from streaming.config.outbound import OutboundSettings, header_room_bytes
from streaming.config.selectors import literal_text
from streaming.config.tables import TablesSettings
from streaming.config.types import (
    MAX_PARTITIONS,
    checkpoint_storage,
    join_index,
    join_key,
    local_folder,
    name_fault,
    topic_fault,
)
from streaming.config.vhosts import UserSettings, VhostSettings
from streaming.protocol.addressing import alive_topic
from topology.suggestions import did_you_mean

_STORAGE: Final = {"s3": "S3", "azure": "Azure", "gcs": "Google Cloud Storage"}

_LEAST_LOG_BYTES: Final = 1 << 20

_GOOGLE_LOGIN: Final = "spark.hadoop.fs.gs.auth."


class Conflict(NamedTuple):
    """Values that are valid one by one, but not together.

    Attributes:
        paths: the settings that the rule depends on; it is reported at the first. `vhosts.*`
            stands for the names of the vhosts.
    """

    paths: tuple[str, ...]
    what: str


class Parts(NamedTuple):
    """The tables that rules depend on; an input that could not be read is None."""

    job: JobSettings
    kafka: KafkaSettings
    vhosts: Mapping[str, VhostSettings]
    users: Mapping[str, UserSettings]
    inputs: Sequence[InputSettings | None]
    outbound: OutboundSettings
    amqp: AmqpSettings
    flow: FlowSettings
    tables: TablesSettings

    def readable_inputs(self) -> Iterator[tuple[str, InputSettings]]:
        """Path -> input, in order."""
        for position, each in enumerate(self.inputs):
            if each is not None:
                yield join_index("inputs", position), each


def conflicts(parts: Parts) -> Iterator[Conflict]:
    """Everything that is wrong between the tables."""
    yield from _locations(parts.job)
    yield from _logins(parts)
    yield from _members(parts)
    yield from _unknown_names(parts)
    yield from _sources(parts)
    yield from _partitions(parts)
    yield from _sequenced(parts)
    yield from _topics(parts)
    yield from _sizes(parts)
    yield from _logs(parts)
    yield from _cluster(parts)


def _locations(job: JobSettings) -> Iterator[Conflict]:
    """Tasks on other machines must reach what the driver reads."""
    needed = checkpoint_storage(job.checkpoint_location)
    if needed is not None and needed not in job.storage:
        yield Conflict(
            ("job.checkpoint_location", "job.storage"),
            f"is in {_STORAGE[needed]}, which is experimental and needs further jars: set "
            f'job.storage = ["{needed}"], or name a folder on this machine or below '
            "job.shared_mount",
        )
    if is_local(job.master):
        return
    mount = None if job.shared_mount is None else PurePath(job.shared_mount)
    for name in ("checkpoint_location", "tables_location"):
        folder = local_folder(getattr(job, name))
        if folder is None or (mount is not None and folder.is_relative_to(mount)):
            continue
        if mount is not None and not folder.is_absolute():
            continue  # it is checked again once it starts at the folder of the file
        below = "a folder below it" if mount else "a folder that they all mount as shared_mount"
        remedy = f"a URL such as s3://BUCKET/FOLDER, or {below}"
        yield Conflict(
            (f"job.{name}", "job.master", "job.shared_mount"),
            f"is a folder of this machine, but the tasks of {job.master} run on others, which "
            f"would each use a folder of their own: name {remedy}",
        )


def _logins(parts: Parts) -> Iterator[Conflict]:
    """Hadoop reads a key of Google from a file only, unless it is told another way to log in."""
    logs_in = any(name.startswith(_GOOGLE_LOGIN) for name in parts.job.spark_properties)
    if logs_in or checkpoint_storage(parts.job.checkpoint_location) != "gcs":
        return
    for name in parts.tables.storage_options:
        if name.lower() in {"google_service_account_key", "service_account_key"}:
            yield Conflict(
                (
                    f"tables.storage_options.{name}",
                    "job.checkpoint_location",
                    "job.spark_properties",
                ),
                "cannot be used for a checkpoint in Google Cloud Storage, since Spark needs the "
                'key in a file: set GOOGLE_SERVICE_ACCOUNT = "/path/of/the/key.json" instead, a '
                "path on the driver and on every executor",
            )


def _members(parts: Parts) -> Iterator[Conflict]:
    tables: dict[str, Sized] = {"vhost": parts.vhosts, "user": parts.users, "input": parts.inputs}
    for noun, table in tables.items():
        if not table:
            yield Conflict((f"{noun}s",), f"is empty: add at least one {noun}")
        for name in table if isinstance(table, Mapping) else ():
            what = name_fault(name)
            if what is not None:
                yield Conflict((join_key(f"{noun}s", name),), f"the name of this {noun} {what}")


def _unknown_names(parts: Parts) -> Iterator[Conflict]:
    for path, each in parts.readable_inputs():
        yield from _unknown(f"{path}.user", "users", each.user, parts.users)
        if each.mapping is None:
            continue
        vhost = each.mapping.vhost
        for name in (literal_text(vhost), getattr(vhost, "otherwise", None)):
            if name is not None:
                yield from _unknown(f"{path}.mapping.vhost", "vhosts", name, parts.vhosts)


def _unknown(path: str, table: str, name: str, known: Iterable[str]) -> Iterator[Conflict]:
    names = set(known)
    if names and name not in names:
        hint = did_you_mean(name, sorted(names))
        yield Conflict((path, f"{table}.*"), f"there is no [{join_key(table, name)}]{hint}")


def _sources(parts: Parts) -> Iterator[Conflict]:
    if not parts.inputs:
        return
    own = [each for _, each in parts.readable_inputs() if each.mapping is None]
    if not any(each.source == "commands" for each in own):
        yield Conflict(
            ("inputs",),
            'no input has source = "commands": add one, such as topic = "dlx.commands", '
            "or clients cannot declare or settle anything",
        )
    if not any(each.source == "publishes" for _, each in parts.readable_inputs()):
        yield Conflict(("inputs",), 'no input has source = "publishes"')


def _partitions(parts: Parts) -> Iterator[Conflict]:
    """A lane without a partition would have a share of the length limits, but no messages."""
    own = [(path, each) for path, each in parts.readable_inputs() if each.mapping is None]
    topic_partitions = parts.kafka.topic_partitions
    for name, vhost in parts.vhosts.items():
        lanes_path = f"{join_key('vhosts', name)}.lanes"
        what = f"must be a multiple of {lanes_path} = {vhost.lanes}: lane is partition modulo lanes"
        if topic_partitions is not None and topic_partitions % vhost.lanes:
            yield Conflict(("kafka.topic_partitions", lanes_path), what)
        for path, each in own:
            if each.partitions is not None and each.partitions % vhost.lanes:
                yield Conflict((f"{path}.partitions", lanes_path, f"{path}.mapping"), what)
    needed = even_partitions(parts.vhosts)
    if needed > MAX_PARTITIONS:
        yield Conflict(
            ("vhosts",),
            f"an even share for all their lanes needs {needed:_} partitions, and "
            f"{MAX_PARTITIONS:_} is the limit: make larger lane counts multiples of smaller ones",
        )


def _sequenced(parts: Parts) -> Iterator[Conflict]:
    """One log decides everything in a sequenced vhost, so it has one lane."""
    for name, vhost in parts.vhosts.items():
        path = join_key("vhosts", name)
        if vhost.sequenced and vhost.lanes != 1:
            yield Conflict(
                (f"{path}.lanes", f"{path}.sequenced"),
                "must be 1 where sequenced = true: split the vhost into several instead",
            )


def _topics(parts: Parts) -> Iterator[Conflict]:
    owner: dict[str, str] = {}
    for path, each in parts.readable_inputs():
        topic_path = f"{path}.topic"
        other = owner.setdefault(_collision_form(each.topic), topic_path)
        if other != topic_path:
            yield Conflict((topic_path, other), f"is already the topic of {other}")
    for name, settings in parts.vhosts.items():
        if settings.sequenced:
            log = log_topic(parts.amqp.log_topic, name)
            this = f"the log of vhost {name!r}"
            user_of_log = owner.setdefault(_collision_form(log), this)
            if user_of_log != this:
                yield Conflict(
                    ("amqp.log_topic", "vhosts.*", "inputs"),
                    f"{log}, {this}, is already the topic of {user_of_log}",
                )
    for vhost in parts.vhosts:
        for user in parts.users:
            outbound = parts.outbound.topic_of(vhost, user)
            pair = f"vhost {vhost!r} and user {user!r}"
            what = topic_fault(alive_topic(outbound))
            if what is not None:
                yield Conflict(
                    ("outbound.topic", "vhosts.*", "users.*"), f"for {pair}, the topic {what}"
                )
            for topic in (outbound, alive_topic(outbound)):
                other = owner.setdefault(_collision_form(topic), pair)
                if other != pair:
                    yield Conflict(
                        ("outbound.topic", "vhosts.*", "users.*", "inputs"),
                        f"{topic}, for {pair}, is already the topic of {other}",
                    )
                    break
    letters = parts.outbound.dead_letters.topic
    if letters is not None:
        user_of_topic = owner.get(_collision_form(letters))
        if user_of_topic is not None:
            yield Conflict(
                ("outbound.dead_letters.topic", "inputs", "outbound.topic"),
                f"{letters} is already the topic of {user_of_topic}",
            )


def _collision_form(topic: str) -> str:
    """The form in which two topics must differ: Kafka's metrics do not distinguish '.' and '_'."""
    return topic.replace(".", "_")


def _sizes(parts: Parts) -> Iterator[Conflict]:
    room = header_room_bytes(parts.flow)
    most = parts.kafka.max_message_bytes - room
    if parts.flow.max_body_bytes > most:
        yield Conflict(
            ("flow.max_body_bytes", "flow.max_header_bytes", "kafka.max_message_bytes"),
            f"must be at most {most:_}: kafka.max_message_bytes = "
            f"{parts.kafka.max_message_bytes:_}, less {room:_} for headers",
        )


def _logs(parts: Parts) -> Iterator[Conflict]:
    """A frame of AMQP becomes one record of the log, and may be a table of 128 KiB."""
    has_log = any(vhost.sequenced for vhost in parts.vhosts.values())
    if has_log and parts.kafka.max_message_bytes < _LEAST_LOG_BYTES:
        yield Conflict(
            ("kafka.max_message_bytes", "vhosts.*"),
            f"must be at least {_LEAST_LOG_BYTES:_} where a vhost is sequenced",
        )


def _cluster(parts: Parts) -> Iterator[Conflict]:
    """The driver's machine says nothing about those of the executors."""
    master = parts.job.master
    if is_local(master):
        return
    if parts.job.shuffle_partitions is None:
        yield Conflict(
            ("job.shuffle_partitions", "job.master"),
            f"is required with master = {master}: write the number of cores of all executors, or "
            "of lanes if there are fewer",
        )
    watermark = parts.flow.vm_memory_high_watermark
    if isinstance(watermark, Relative) and watermark.fraction:
        yield Conflict(
            ("flow.vm_memory_high_watermark", "job.master"),
            f'must be a size with master = {master}, such as {{ absolute = "8GB" }}: a fraction '
            "of the driver's memory says nothing about the executors. 0 switches it off",
        )


def even_partitions(vhosts: Mapping[str, VhostSettings]) -> int:
    """The lowest number of partitions that gives each lane of each vhost the same share."""
    return math.lcm(*(vhost.lanes for vhost in vhosts.values()))
