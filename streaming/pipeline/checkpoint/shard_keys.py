"""Shards that a checkpoint has and the configuration must keep: their messages are in the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.pipeline.checkpoint.checkpoint import CheckpointError

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.pipeline.checkpoint.manifest import JobFile
    from streaming.pipeline.shard_stats import ShardsSeen


def keep_shards(config: JobConfig, job_file: JobFile, seen: ShardsSeen) -> None:
    """Refuse a configuration that would leave messages where nobody gets them.

    Raises:
        CheckpointError: another number of lanes, or a vhost with messages is not listed.
    """
    refuse_other_lanes(config, job_file)
    refuse_lost_vhosts(config, job_file, seen)


def refuse_other_lanes(config: JobConfig, job_file: JobFile) -> None:
    """Refuse a vhost whose number of lanes has changed: each lane has its part of the messages.

    Raises:
        CheckpointError: names the vhost and both numbers.
    """
    lanes: dict[str, int] = {}
    for name in job_file.shards:
        _lane, _space, vhost = name.partition(" ")
        lanes[vhost] = lanes.get(vhost, 0) + 1
    for vhost, settings in config.vhosts.items():
        made_with = lanes.get(vhost, settings.lanes)
        if made_with != settings.lanes:
            raise CheckpointError(
                f"vhosts.{vhost}.lanes: the checkpoint has this vhost with {made_with}, each with "
                f"its part of the messages; this start has {settings.lanes}. Set it to {made_with}"
            )


def refuse_lost_vhosts(config: JobConfig, job_file: JobFile, seen: ShardsSeen) -> None:
    """Refuse to leave out a vhost that has messages: nobody could get them any more.

    Raises:
        CheckpointError: names the vhost and how many messages it has.
    """
    for name, shard in job_file.shards.items():
        _lane, _space, vhost = name.partition(" ")
        messages, _size = seen.resident.get(shard, (0, 0))
        if messages and vhost not in config.vhosts:
            raise CheckpointError(
                f"vhosts: {vhost!r} is not listed any more, and its queues have {messages} "
                "messages in this checkpoint. List it again; it can go when its queues are empty"
            )
