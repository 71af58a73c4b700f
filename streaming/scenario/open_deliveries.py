"""What the clients of a scenario take for unacked, kept as the recorder keeps it.

A queue that expires, or goes with its last consumer, takes its messages along; but nobody tells the
clients, and the broker lets them settle what is gone. So a ref is missing only if it was never
delivered, or left earlier by a step: settled, recovered, closed with its channel, deleted with its
queue.
"""

from collections.abc import Callable

from streaming.broker import commands
from streaming.broker.commands import Command
from streaming.scenario.replies import Delivered

Settlement = commands.Ack | commands.Nack | commands.Reject


class OpenDeliveries:
    """Deliveries by ref, in order; none with automatic ack."""

    def __init__(self) -> None:
        self._open: dict[str, Delivered] = {}

    def add(self, delivery: Delivered) -> None:
        """A delivery came; a ref used again means the newer one."""
        self._open.pop(delivery.ref, None)
        self._open[delivery.ref] = delivery

    def after(self, command: Command, *, refused: bool) -> None:
        """Forget what a command ended; one that was refused closed its channel."""
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
        """Settle what a command is about to settle; gives those of its refs that are not open."""
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
