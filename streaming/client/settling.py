"""What a settlement names: deliveries, or their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from streaming.client.errors import ClientError
from streaming.client.messages import Delivery

Settled: TypeAlias = "Delivery | str | Iterable[Delivery | str]"


def refs_of(settled: Settled) -> list[str]:
    """Delivery ids.

    Raises:
        ClientError: a delivery with automatic ack is among them.
    """
    if isinstance(settled, str):
        refs = [settled]
    elif isinstance(settled, Delivery):
        refs = [settled.delivery_id]
    else:
        refs = [one if isinstance(one, str) else one.delivery_id for one in settled]
    if not all(refs):
        raise ClientError("a delivery with automatic ack is settled already")
    return refs
