"""Imports definitions into a vhost, before clients may open it.

    log:  epoch | portion | portion | ... | complete | what clients do

A document is written in portions, so that none is larger than a record may be. A front that leads a
log whose import somebody else has not completed imports everything again, which changes nothing
that is there already. What the log says of an import has the form of a copied input, whose name no
topic of Kafka can have.

A takeover is not a start: a standby does not import again what was imported last, or it would undo
what was changed since.
"""

import asyncio
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from streaming.amqp.entries import Ask
from streaming.amqp.vhosts import AnswerListener
from streaming.broker.events import Actor
from streaming.broker.outbound import AnswerOut
from streaming.protocol.command_codec import encode_command
from streaming.protocol.copied_records import Source
from streaming.protocol.definitions_portions import portions
from streaming.sequencer.log_vhost import LogVhost
from topology.errors import DlxError

PLACE: Final = "definitions:"
_BEGUN: Final = 0
_COMPLETE: Final = 1
"""Partitions of that name."""

_OTHER: Final = 0
"""Complete, too, but of another document: of one that is imported now, or by an earlier version."""

_FIRST_SEQ: Final = 1
_LOOK_S: Final = 0.25
_OPERATOR: Final = Actor(None, "definitions")


class DefinitionsRefusedError(DlxError):
    """Definitions cannot be imported, so the vhost is not served."""

    help_code = "import-failed"


class Import(NamedTuple):
    """Declarations for a vhost.

    Attributes:
        definitions: a document.
        only_first: only where the log begins.
    """

    definitions: dict[str, Any]
    only_first: bool


def is_due(given: Import, vhost: LogVhost, *, standby: bool = False) -> bool:
    """Whether a vhost that has read its log still has to import what it is given.

    Args:
        standby: whether its front takes over, and does not lead from its start on.
    """
    copied = vhost.copied
    complete = copied.next_of(PLACE, _COMPLETE)
    if not given.only_first:
        return not standby or complete != _number(given) + 1
    if complete is not None:
        return False
    # earlier versions did not say that they were done, and let clients in then
    has_begun = copied.next_of(PLACE, _BEGUN) is not None
    return has_begun or vhost.shard.events.next_seq == _FIRST_SEQ


async def import_definitions(given: Import, vhost: LogVhost) -> None:
    """Import definitions into a vhost that leads, as long as it does.

    Raises:
        DefinitionsRefusedError: a part is too large for a record, and nothing was written; or the
            broker refuses one.
    """
    most = vhost.max_body_bytes
    parts = portions(given.definitions, most // 2)
    for part in parts:
        size = len(encode_command(part))
        if size > most:
            raise DefinitionsRefusedError(
                f"vhost {vhost.name}: definitions: an item takes {size} bytes, and a record of the "
                f"log may have {most} (flow.max_body_bytes). Nothing was imported"
            )
    if vhost.copied.next_of(PLACE, _COMPLETE) is not None:
        vhost.mark(Source(PLACE, _COMPLETE, _OTHER))
    for number, part in enumerate(parts):
        answered: asyncio.Future[AnswerOut] = asyncio.get_running_loop().create_future()
        vhost.listen(_OPERATOR.channel, AnswerListener(answered.set_result))
        vhost.submit(Ask(_OPERATOR, part, Source(PLACE, _BEGUN, number)))
        while not answered.done():
            if not vhost.leads:
                return
            await asyncio.wait({answered}, timeout=_LOOK_S)
        answer = answered.result()
        vhost.forget(_OPERATOR.channel)
        if answer.refusal is not None:
            raise DefinitionsRefusedError(f"vhost {vhost.name}: definitions: {answer.refusal.text}")
    vhost.mark(Source(PLACE, _COMPLETE, _number(given)))


def _number(given: Import) -> int:
    """Which document it is."""
    document = msgspec.json.encode(given.definitions, order="deterministic")
    return 1 + int.from_bytes(blake2b(document, digest_size=6).digest())
