"""The exchanges, queues and bindings of one vhost that are skipped: RabbitMQ would have them.

Tools show where they would be, and do not call lost what would reach them.
"""

import msgspec

from topology.declarations import (
    PREDECLARED_NAMES,
    Binding,
    BindingEnd,
    Definitions,
    Exchange,
    Queue,
)
from topology.routing.exchanges import EXCHANGE_TYPES


class SkippedObjects(msgspec.Struct, frozen=True):
    """What is skipped in one vhost.

    Attributes:
        bindings: those with a skipped exchange or queue at one of their ends.
        reasons: why each exchange and queue is skipped.
    """

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()
    reasons: dict[BindingEnd, str] = {}

    def beside(self, definitions: Definitions, *, follow: bool) -> Definitions:
        """The definitions, with stand-ins for what is skipped.

        Args:
            follow: a skipped exchange of an unknown type has its bindings, and each of them may
                match any message; otherwise it routes nothing.
        """
        if not self.reasons:
            return definitions
        declared = PREDECLARED_NAMES | {exchange.name for exchange in definitions.exchanges}
        exchanges = {each.name: each for each in self.exchanges if each.name not in declared}
        declared_queues = {queue.name for queue in definitions.queues}
        queues = {each.name: each for each in self.queues if each.name not in declared_queues}
        unknown = {each.name for each in exchanges.values() if each.type not in EXCHANGE_TYPES}
        ends = {("exchange", name) for name in declared | exchanges.keys()}
        ends |= {("queue", name) for name in declared_queues | queues.keys()}
        bindings = (
            msgspec.structs.replace(each, arguments={}) if each.source in unknown else each
            for each in self.bindings
            if ("exchange", each.source) in ends
            and (each.destination_type, each.destination) in ends
            and (follow or each.source not in unknown)
        )
        stand_ins = (
            msgspec.structs.replace(
                each,
                type="headers" if each.name in unknown else each.type,
                arguments=each.arguments if follow else {},
            )
            for each in exchanges.values()
        )
        return msgspec.structs.replace(
            definitions,
            exchanges=(*definitions.exchanges, *stand_ins),
            queues=(*definitions.queues, *queues.values()),
            bindings=(*definitions.bindings, *bindings),
        )


NOTHING_SKIPPED = SkippedObjects()
