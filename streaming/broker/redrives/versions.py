"""The new versions of edited letters: publishes that no queue takes, found by their content's hash.

    editor publishes a version to the key of its hash --> kept here --redrive--> the letter's target

A version is a message like any other: its body is in `messages`. Only the last publish of a version
counts, so that publishing it again is harmless. It is in no queue, so its row may be erased or
removed before a redrive asks for it: then it counts as missing.
"""

import msgspec

from streaming.broker.config import ShardConfig
from streaming.broker.context import ShardContext
from streaming.broker.message import NO_FILE, Message
from streaming.broker.state.encoding import pack, unpack
from topology.refusals import Refusal, access_refused

_encode = msgspec.msgpack.Encoder().encode
_message = msgspec.msgpack.Decoder(Message)


class Versions:
    """The versions that editors published, by hash."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context

    def keep(self, version: str, message: Message) -> None:
        """Keep the message of a version."""
        self._context.new_versions.add(version)
        self._context.store.write(self._key(version), pack(_encode(message)))

    def find(self, version: str) -> Message | None:
        """The message of a version; None if there is none, or `messages` lost it or its data.

        It is looked up by its key, because the file that it arrived in has what was erased since.
        Rows of this batch are not in the table yet, and nothing has erased them. In a sequenced
        vhost the log has it, and the job puts its row back if it is lost.
        """
        data = self._context.store.read(self._key(version))
        if data is None:
            return None
        message = _message.decode(unpack(data))
        if version in self._context.new_versions:
            return message
        message.body_file, message.body_row = NO_FILE, 0
        if self._context.config.sequenced:
            return message
        try:
            self._context.published(message)
        except LookupError:
            return None
        return message

    @staticmethod
    def _key(version: str) -> str:
        return f"version/{version}"


def refuse_edit(config: ShardConfig, user: str | None) -> Refusal | None:
    """403 if the user may not edit letters."""
    if user is None or not config.enforce_permissions or user in config.editors:
        return None
    return access_refused(f"user '{user}' may not edit dead letters in vhost '{config.vhost}'")
