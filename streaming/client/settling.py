"""Settling deliveries: what a settlement names, and the calls of a channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from streaming.client.errors import ClientError
from streaming.client.messages import Delivery

Settled: TypeAlias = "Delivery | str | Iterable[Delivery | str]"


def refs_of(settled: Settled) -> list[str]:
    """Delivery ids.

    Raises:
        ClientError: something else is among them, or a delivery with automatic ack.
    """
    several = [settled] if isinstance(settled, str | Delivery) else settled
    if not isinstance(several, Iterable):
        raise _no_delivery(several)
    refs = []
    for one in several:
        if not isinstance(one, str | Delivery):
            raise _no_delivery(one)
        refs.append(one if isinstance(one, str) else one.delivery_id)
    if not all(refs):
        raise ClientError("a delivery with automatic ack is settled already")
    return refs


def _no_delivery(found: object) -> ClientError:
    return ClientError(
        f"what is settled must be a delivery, its delivery_id, or several, not {found!r:.100}"
    )


class Settling:
    """The calls of a channel that settle: sent, not waited for; `Channel.sync` waits."""

    def tell(self, op: str, **members: Any) -> None:
        """Send a command of this channel and do not wait."""
        raise NotImplementedError

    def ack(self, delivery: Settled, *, multiple: bool = False) -> None:
        """Settle a delivery (or several, or delivery ids); `multiple`: and all before it."""
        self.tell("ack", refs=refs_of(delivery), multiple=multiple)

    def nack(self, delivery: Settled, *, multiple: bool = False, requeue: bool = True) -> None:
        """Give a delivery back to its queue, or with `requeue=False` dead-letter it."""
        self.tell("nack", refs=refs_of(delivery), multiple=multiple, requeue=requeue)

    def reject(self, delivery: Settled, *, requeue: bool = True) -> None:
        """As `nack`, never multiple."""
        self.tell("reject", refs=refs_of(delivery), requeue=requeue)
