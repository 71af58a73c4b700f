"""The broker core as an engine for scenarios, with a vhost of several lanes: one shard a lane.

Commands go to the lanes as the pipeline's first stage sends them, and answers are merged as its
driver does. Publishes are spread over the lanes in turn.
"""

from collections.abc import Sequence

from streaming.broker.commands import Command
from streaming.broker.config import ShardConfig
from streaming.broker.lanes import (
    HOME,
    Answering,
    LanePart,
    RecordId,
    lane_of,
    merged,
    on_each_lane,
    on_lane,
)
from streaming.broker.message import AWAY
from streaming.broker.outbound import Outbound, lane_part
from streaming.broker.redrives.agreement import verdicts
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.scenario import replies
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.steps import Publish
from topology.values import Compat


class LanedBroker(CoreBroker):
    """A `Broker` in memory whose vhost has several lanes; `shard` is the home lane."""

    def __init__(self, compat: Compat, lanes: int) -> None:
        super().__init__(compat)
        self.shards = [
            Shard(
                ShardConfig(vhost=replies.VHOST, compat=compat, lane=lane, lanes=lanes),
                MemoryStore(),
                published=self.published,
            )
            for lane in range(lanes)
        ]
        self.shard = self.shards[HOME]
        self._records = 0

    def advance(self, at_ms: int) -> list[replies.Reply]:
        """Advance the clock to `at_ms` of the scenario."""
        for shard in self.shards:
            shard.advance(replies.START_MS + at_ms)
        self._agree()
        return self._replies()

    def publish(self, publish: Publish) -> list[replies.Reply]:
        """Publish with confirm."""
        message, flags = self._add(publish)
        own = message.offset % len(self.shards)
        for lane in sorted({HOME, own}):
            away = 0 if lane == own else AWAY
            self._publish(publish, self.shards[lane], message, flags | away)
        return self._replies()

    def command(self, command: Command) -> list[replies.Reply]:
        """Run a command."""
        channel = getattr(command, "channel", None) or ""
        actor = self._actor(channel)
        place = (1, 0, self._records)
        turn = self._records % len(self.shards)
        self._records += 1
        for lane, part, answering in on_each_lane(command, channel, turn, len(self.shards)):
            shard = self.shards[lane]
            shard.command(shard.now_ms, part, actor, answering, place)
        self._agree()
        return self._replies()

    def _agree(self) -> None:
        """Let the lanes do what they agree on about redrives, as the job's driver does."""
        for shard in self.shards:
            shard.state.redrives.finish()
        while agreed := list(verdicts([shard.state.redrives.notes() for shard in self.shards])):
            for _note, verdict in agreed:
                for shard in self.shards:
                    shard.command(shard.now_ms, verdict, answering=Answering.SILENT)

    def unacked(self, delivery_ids: list[str]) -> set[str]:
        """The deliveries of these that are not settled now."""
        found = set()
        for each in delivery_ids:
            lane, name = lane_of(each, len(self.shards))
            if self.shards[lane].state.channels.is_unacked(name):
                found.add(each)
        return found

    def _replies(self) -> list[replies.Reply]:
        """The output of all lanes since the last call; what they answer together is last."""
        found: list[replies.Reply | None] = []
        outs, answers = take_outbound(self.shards)
        for lane, out in outs:
            reply = self._reply(out)
            if isinstance(reply, replies.Delivered):
                ref, delivery_id = on_lane(reply.ref, lane), on_lane(reply.delivery_id, lane)
                reply = reply._replace(ref=ref, delivery_id=delivery_id)
            found.append(reply)
        found += map(_together, answers)
        return [reply for reply in found if reply is not None]


def take_outbound(shards: Sequence[Shard]) -> tuple[list[tuple[int, Outbound]], list[LanePart]]:
    """Take what the lanes of a vhost have to say: by lane, and merged what they answer together."""
    outs: list[tuple[int, Outbound]] = []
    parts: dict[tuple[str, RecordId], list[LanePart]] = {}
    for lane, shard in enumerate(shards):
        for out in shard.take_outbound():
            part = lane_part(out, lane, 0, 0)
            if part is None:
                outs.append((lane, out))
            else:
                parts.setdefault((part.op, part.place), []).append(part)
    return outs, [merged(each) for each in parts.values()]


def _together(answer: LanePart) -> replies.Reply:
    if not answer.op:
        return replies.Confirmed(answer.result["ack"])
    error = None if answer.refusal is None else replies.error_record(answer.refusal)
    return replies.Answered(answer.result, error)
