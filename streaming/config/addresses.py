"""The address of each vhost and user of a job, which its heartbeat tells to clients."""

from streaming.config.inputs import InputSettings
from streaming.config.model import JobConfig
from streaming.protocol.addressing import JobAddress
from streaming.protocol.record_headers import WIRE_VERSION


def job_address(config: JobConfig, vhost: str, user: str) -> JobAddress:
    """Return the topics and limits of a vhost and user that the configuration has."""
    inputs: dict[str, InputSettings] = {
        each.source: each
        for each in reversed(config.inputs)
        if each.mapping is None and each.user == user
    }
    topics = {source: each.topic for source, each in inputs.items()}
    commands = topics.get("commands")
    return JobAddress(
        vhost=vhost,
        user=user,
        outbound=config.outbound_topics()[vhost, user],
        commands=commands,
        publishes=topics.get("publishes") or commands or "",
        transactions=topics.get("transactions"),
        lanes=config.vhosts[vhost].lanes,
        max_body_bytes=config.flow.max_body_bytes,
        max_header_bytes=config.flow.max_header_bytes,
        max_message_bytes=config.kafka.max_message_bytes,
        wire_version=WIRE_VERSION,
    )
