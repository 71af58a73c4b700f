"""What a front copies from Kafka into the log of a sequenced vhost, and what it does not.

    record on an input --front--> record of the log, on a channel `kafka:NAME`, with its source
                                                    |
                                       the job --answer, on NAME--> who wrote the record

The job, the front and the client apply one rule: the job quarantines what the front leaves out, and
the client does not send it.
"""

from typing import Final

import msgspec

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.broker.events import COPIED_CHANNEL
from streaming.broker.message import Publication
from streaming.broker.redrive_letters import Letter
from streaming.broker.redrives.version_keys import is_name_of_content, version_of
from streaming.protocol.addressing import served_by_front
from topology.declarations import MAX_NAME_BYTES

COPIED: Final = "dlx-copied"
"""The header of a record of the log that says where it was copied from: a `Source`."""

_ADMINISTRATION: Final = frozenset(
    {
        *(commands.OpenChannel, commands.Renew, commands.CloseChannel),
        *(commands.DeclareQueue, commands.DeleteQueue, commands.Purge, commands.Depth),
        *(commands.DeclareExchange, commands.DeleteExchange, commands.Bind, commands.Unbind),
        *(commands.SetPolicy, commands.ClearPolicy),
        *(commands.SetOperatorPolicy, commands.ClearOperatorPolicy),
        *(commands.SetPermissions, commands.ClearPermissions),
        *(commands.SetTopicPermissions, commands.ClearTopicPermissions),
        *(commands.SetVhostLimit, commands.ClearVhostLimit),
        *(commands.ImportDefinitions, commands.ExportDefinitions, commands.Deployed),
        *(commands.Redrive, commands.ControlRedrive),
    }
)
_MAX_CHANNEL_BYTES: Final = MAX_NAME_BYTES - len(COPIED_CHANNEL)


class Source(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a record was copied from.

    Attributes:
        topic_id: Kafka's id of the topic, which may be made again under its name. Earlier versions
            do not say it.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str = ""


_decoder: Final = msgspec.msgpack.Decoder(Source)


def read_source(data: bytes) -> Source | None:
    """Read the header COPIED; None if it is damaged."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None


def not_copied(vhost: str, command: Command) -> str | None:
    """Why a front does not copy a command for its vhost; None if it does."""
    match command:
        case commands.OpenChannel(connection=str()):
            return f"{served_by_front(vhost)}: it cannot open a channel of a connection"
        case commands.DeclareQueue(queue=queue, passive=False) if queue.exclusive:
            return f"{served_by_front(vhost)}: it cannot declare an exclusive queue"
        case commands.Redrive(letters=letters):
            if any(map(_needs_queue, letters)):
                return (
                    f"the vhost {vhost!r} is sequenced: letters that are edited, or in no queue "
                    "any more, can only be sent to a queue there"
                )
    if type(command) not in _ADMINISTRATION:
        return served_by_front(vhost)
    if len(channel_of(command).encode()) > _MAX_CHANNEL_BYTES:
        return (
            f"the name of the channel is longer than {_MAX_CHANNEL_BYTES} bytes, the limit in the "
            f"sequenced vhost {vhost!r}"
        )
    return None


def is_copied_version(publication: Publication) -> bool:
    """Whether a publish is a version of an edited letter: a front copies it with the commands."""
    version = version_of(publication.exchange, publication.routing_key)
    return bool(version) and not is_name_of_content(version)


def _needs_queue(letter: Letter) -> bool:
    """Whether a letter of new content goes to an exchange, which may have to see its headers."""
    is_new = letter.stored is not None or letter.edit is not None
    return is_new and letter.target is not None and letter.target.queue is None


def channel_of(command: Command) -> str:
    """The channel that a command names."""
    return getattr(command, "channel", None) or ""


def copied_command(command: Command) -> Command:
    """A command as the log has it: on a channel that no client of AMQP can have."""
    return msgspec.structs.replace(command, channel=COPIED_CHANNEL + channel_of(command))
