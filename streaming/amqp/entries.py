"""What happens in a vhost, one after the other: entries, submitted by channels and then applied.

    channel --submit--> [in memory: at once; on a log: when it is written] --apply--> Shard
       ^                                                                                |
       +---------------- answers, confirms, deliveries, refusals -----------------------+

A channel never learns from `submit` what came of an entry. Everything that it has to know reaches
it when the entry is applied, or later.
"""

from collections.abc import Callable

import msgspec

from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.broker.commands import Command, SettleOutcome
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.protocol.copied_records import Source
from topology.refusals import Refusal


class Publish(msgspec.Struct, gc=False):
    """A message of a client.

    Attributes:
        flags: `MANDATORY | CONFIRM` of `streaming.broker.message`.
        number: of the publish on its channel, if that confirms; else 0.
        confirms: of the channel; it is told the offset of the message.
        source: the record that it was copied from; None: a client of AMQP sent it.
    """

    actor: Actor
    publication: Publication
    stored: Stored
    flags: int
    number: int
    confirms: Confirms
    source: Source | None = None


class Settle(msgspec.Struct, gc=False):
    """Deliveries of a channel are settled, as the command of that name says.

    Attributes:
        method: class and number of AMQP's method.
        refused: is told why it is refused, and the method; the core has closed the channel then.
    """

    actor: Actor
    tag: int
    last: int
    multiple: bool
    outcome: SettleOutcome
    method: tuple[int, int]
    refused: Callable[[Refusal, tuple[int, int]], None]


class Ask(msgspec.Struct, gc=False):
    """A command; its answer goes to who listens by the name of the actor's channel.

    Attributes:
        source: as of a `Publish`.
    """

    actor: Actor
    command: Command
    source: Source | None = None


class Then(msgspec.Struct, gc=False):
    """Something that the server does by itself when all before it is applied and told.

    It changes nothing in the vhost, so no log has it.
    """

    done: Callable[[], None]


Entry = Publish | Settle | Ask | Then
