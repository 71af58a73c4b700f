"""Where a command goes in a vhost of several lanes, and how the lanes' answers become one (D2).

    command --> lane 0    answers, or its part of the answer   --+
            --> lane 1    its part of the answer, or silent      +--> one answer
            --> lane 2    ...                                  --+

Every lane is a broker of its own with the same declarations, channels and consumers, because every
lane carries out the same commands in the same order. Only messages differ: a queue has a part on
each lane. So a lane decides alone about leases, exclusive and auto-delete queues and the expiry of
queues, and all decide alike.

Lane 0 is the home lane: queues declared with `x-single-lane` have their messages there. It sees
every publish of the vhost, and answers for publishes that reach no other queue.

The name of a delivery on another lane ends in `@` and the lane: `1.1.7@2`, `label/7@2`. So a
settlement is divided by its names; `multiple` means the earlier deliveries on each lane that the
names are of.
"""

from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import msgspec

from streaming.broker import commands
from streaming.broker.commands import Check, CheckedPublish, Command, Get, Settlement
from streaming.broker.config import ShardConfig
from topology.refusals import Refusal

if TYPE_CHECKING:
    from topology.policies import QueueSettings  # it loads re2, which clients do without

HOME = 0
"""The lane of queues that are on a single lane."""

NOT_IMPLEMENTED = 540
_MAX_DIGITS: Final = 4

PARTITION, ROUTING_KEY, BY_HEADER = "partition", "routing_key", "header:"
"""What chooses the lane of a publish: Kafka's partition, the routing key, or a named header."""

RecordId = tuple[int, int, int]
"""Topic number, partition and offset of a record."""


class Answering(IntFlag):
    """What a lane does with its answer to a command; nothing: it answers."""

    SILENT = 1
    PART = 2  # its answer is merged with those of the other lanes


ALONE = Answering(0)

_SUMMED = frozenset(
    {"deleted_ready", "delivered", "moved", "parked", "purged", "ready", "requeued", "skipped"}
)
_IN_PARTS = (
    commands.Depth,
    commands.DeclareQueue,
    commands.DeleteQueue,
    commands.Purge,
    commands.Recover,
    commands.Renew,
    commands.Redrive,
    commands.ControlRedrive,
)
"""The commands whose answer needs every lane."""


class LaneCommand(NamedTuple):
    """What one lane carries out."""

    lane: int
    command: Command
    answering: Answering


class LanePart(msgspec.Struct, frozen=True):
    """The part of an answer, or of a confirm, that one lane gives.

    Attributes:
        place: the record that is answered.
        op: empty for a confirm.
        seq, event_seq: numbers of the outbound record and of its event, on that lane.
    """

    lane: int
    place: RecordId
    user: str | None
    channel: str
    op: str
    reply_id: str | None
    result: dict[str, Any]
    code: int
    text: str
    seq: int
    event_seq: int

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of the command on that lane."""
        return Refusal(self.code, self.text) if self.code else None


def on_lane(name: str, lane: int) -> str:
    """The name of a delivery outside of its lane."""
    return f"{name}@{lane}" if lane and name else name


def lane_of(name: str, lanes: int) -> tuple[int, str]:
    """The lane of a delivery, and its name there; other names are looked up on the home lane."""
    there, at, text = name.rpartition("@")
    if at and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        lane = int(text)
        if 0 < lane < lanes:
            return lane, there
    return HOME, name


def lane_of_key(key: str, lanes: int) -> int:
    """The lane of all messages that have this key."""
    return crc32(key.encode()) % lanes


def share(number: int, lane: int, lanes: int) -> int:
    """A lane's part of a limit or prefetch: at least 1, unless the whole is 0."""
    return max(number // lanes + (lane < number % lanes), min(number, 1))


def prefetch_on(config: ShardConfig, prefetch: int, *, single_lane: bool) -> int:
    """A consumer's prefetch on this lane; 0 is no limit.

    A queue on the home lane may have messages on others all the same: dead letters of their queues.
    """
    if single_lane:
        return prefetch if config.lane == HOME else min(prefetch, 1)
    return share(prefetch, config.lane, config.lanes)


def settings_on(config: ShardConfig, settings: "QueueSettings") -> "QueueSettings":
    """A queue's settings on this lane: its limits are divided, unless all its messages are here."""
    lanes, lane = config.lanes, config.lane
    if lanes == 1 or (settings.single_lane and lane == HOME):
        return settings

    def part(limit: int | None) -> int | None:
        return None if limit is None else share(limit, lane, lanes)

    return msgspec.structs.replace(
        settings,
        max_length=part(settings.max_length),
        max_length_bytes=part(settings.max_length_bytes),
    )


def takes(config: ShardConfig, settings: "QueueSettings", *, is_away: bool) -> bool:
    """Whether a queue gets a message on this lane, one of several, that is routed to it.

    Args:
        is_away: the publish is another lane's: only queues on a single lane get it here.
    """
    if config.lane == HOME and not is_away:
        return True
    return settings.single_lane == is_away


def lane_to_get_from(command: Get, lane: int, settings: "QueueSettings") -> int:
    """The named lane, else the only lane of the queue, else the one whose turn it is."""
    if command.lane is not None:
        return command.lane
    if not isinstance(command, commands.GetOnLanes):
        return lane
    return HOME if settings.single_lane else command.turn


def got_on(config: ShardConfig, lane: int, settings: "QueueSettings") -> dict[str, Any]:
    """What the answer to a get says of lanes: which it got from, and how many the queue is on."""
    if config.lanes == 1:
        return {}
    return {"lane": lane, "lanes": 1 if settings.single_lane else config.lanes}


def refuse_on_lanes(config: ShardConfig, what: str) -> Refusal | None:
    """540 in a vhost of several lanes, for what no lane can know or do without the others."""
    if config.lanes == 1:
        return None
    text = f"{what} cannot be used in vhost '{config.vhost}', which has {config.lanes} lanes"
    return Refusal(NOT_IMPLEMENTED, f"NOT_IMPLEMENTED - {text}")


# -- dividing


def on_each_lane(command: Command, channel: str, turn: int, lanes: int) -> list[LaneCommand]:
    """What each lane carries out, the home lane first.

    A lane without a part in it renews the lease of the channel, as every command does.

    Args:
        channel: who sent it.
        turn: the lane of its record; a get begins there.
    """
    match command:
        case commands.Tick(lane=None) | commands.RedriveVerdict():
            return [LaneCommand(lane, command, Answering.SILENT) for lane in range(lanes)]
        case commands.Tick(lane=int(lane)):
            return [LaneCommand(lane % lanes, command, Answering.SILENT)]
        case commands.Ack() | commands.Reject() | commands.Nack():
            return _divided(_settlements(command, lanes), channel, lanes)
        case Check():
            parts = _checks(command, lanes)
            return [LaneCommand(lane, part, Answering.PART) for lane, part in enumerate(parts)]
        case Get():
            turn = turn if command.lane is None else command.lane % lanes
            members = {name: getattr(command, name) for name in Get.__struct_fields__}
            got = commands.GetOnLanes(**members, turn=turn)
            return [LaneCommand(lane, got, Answering.PART) for lane in range(lanes)]
    in_parts = isinstance(command, _IN_PARTS)
    other = Answering.PART if in_parts else Answering.SILENT
    home = Answering.PART if in_parts else ALONE
    return [LaneCommand(lane, command, other if lane else home) for lane in range(lanes)]


def _divided(parts: Mapping[int, Command], channel: str, lanes: int) -> list[LaneCommand]:
    """The parts of their lanes; the other lanes only renew the lease.

    A single part answers alone. Otherwise the home lane gives a part in any case: it numbers the
    answer.
    """
    answering = ALONE if len(parts) == 1 else Answering.PART
    renew = commands.Renew(channel=channel)
    return [
        LaneCommand(lane, parts[lane], answering)
        if lane in parts
        else LaneCommand(lane, renew, Answering.SILENT)
        for lane in range(lanes)
    ]


def _settlements(settlement: Settlement, lanes: int) -> dict[int, Command]:
    """Divide a settlement: each lane gets the deliveries that it made, in their order.

    If they are of several lanes, or of none, the home lane gets a part as well: it answers.
    """
    refs: dict[int, list[str]] = {}
    for ref in settlement.refs:
        lane, name = lane_of(ref, lanes)
        refs.setdefault(lane, []).append(name)
    if len(refs) != 1:
        refs.setdefault(HOME, [])
    return {
        lane: msgspec.structs.replace(settlement, refs=tuple(names)) for lane, names in refs.items()
    }


def _checks(check: Check, lanes: int) -> list[Command]:
    """The check of each lane: its own settlements; publishes are refused alike on all."""
    steps: list[list[CheckedPublish | Settlement]] = [[] for _ in range(lanes)]
    for step in check.steps:
        if isinstance(step, CheckedPublish):
            steps[HOME].append(step)
            continue
        for lane, part in _settlements(step, lanes).items():
            assert isinstance(part, Settlement)
            if part.refs:
                steps[lane].append(part)
    return [msgspec.structs.replace(check, steps=tuple(each)) for each in steps]


# -- merging


def merged(parts: Iterable[LanePart]) -> LanePart:
    """One answer of those of all lanes, with the numbers of the home lane's.

    The lanes refuse alike, so the home lane's refusal is the answer; a check is refused if any lane
    refuses its settlements. Counts are added up; a channel is open if it is open on all lanes.
    """
    ordered = sorted(parts, key=lambda part: part.lane)
    home = ordered[0]
    refused = home
    if home.op == "check":
        refused = next((part for part in ordered if part.code), home)
    if refused.code:
        return msgspec.structs.replace(home, result={}, code=refused.code, text=refused.text)
    if home.op == "":
        accepted = all(part.result["ack"] for part in ordered)
        return msgspec.structs.replace(home, result={"ack": accepted})
    result = dict(home.result)
    for part in ordered[1:]:
        if home.op == "renew" and not part.result["open"]:
            result = part.result
        for name, value in part.result.items():
            if name in _SUMMED:
                result[name] = result.get(name, 0) + value
            elif name == "missing":
                result[name] = [*result.get(name, ()), *value]
            else:
                result.setdefault(name, value)
    return msgspec.structs.replace(home, result=result)
