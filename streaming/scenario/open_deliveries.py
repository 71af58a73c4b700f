"""The deliveries that clients of a scenario consider unacked, tracked like the recorder did.

If a queue expires or is deleted with its last consumer, clients are not told, and the broker
accepts settlements of its messages. So a ref is missing only if it was never delivered, or if an
earlier step settled or recovered it, closed its channel, or deleted its queue.
"""

from collections.abc import Callable

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.scenario.replies import Delivered

Settlement = commands.Ack | commands.Nack | commands.Reject


class OpenDeliveries:
    """The unsettled deliveries by ref, in order, without automatically acked ones."""

    def __init__(self) -> None:
        self._open: dict[str, Delivered] = {}

    def add(self, delivery: Delivered) -> None:
        """Add a delivery; a repeated ref replaces the older one."""
        self._open.pop(delivery.ref, None)
        self._open[delivery.ref] = delivery

    def after(self, command: Command, *, refused: bool) -> None:
        """Forget the deliveries that a command ended; a refused command closes its channel."""
        match command:
            case commands.DeleteQueue(queue=queue) if not refused:
                self._forget(lambda one: one.queue == queue)
            case commands.Recover(channel=channel) | commands.CloseChannel(channel=channel):
                self.left(channel)
            case _ if refused and not isinstance(command, commands.Check):
                self.left(getattr(command, "channel", None))

    def left(self, channel: str | None) -> None:
        """Forget the deliveries of a channel."""
        self._forget(lambda one: one.channel == channel)

    def before(self, command: Command) -> set[str]:
        """Settle the refs of a command; return those that are not open."""
        match command:
            case commands.Ack() | commands.Nack() | commands.Reject():
                return {ref for ref in command.refs if not self._settle(ref, command)}
            case _:
                return set()

    def _settle(self, ref: str, settlement: Settlement) -> bool:
        delivery = self._open.get(ref)
        if delivery is None or settlement.channel not in {None, delivery.channel}:
            return False
        if getattr(settlement, "multiple", False):
            known = list(self._open)
            older = set(known[: known.index(ref)])
            self._forget(lambda one: one.channel == delivery.channel and one.ref in older)
        del self._open[ref]
        return True

    def _forget(self, ended: Callable[[Delivered], bool]) -> None:
        self._open = {ref: one for ref, one in self._open.items() if not ended(one)}
