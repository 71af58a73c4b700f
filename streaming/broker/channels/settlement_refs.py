"""Resolves the refs of a settlement.

    label/n               the n-th delivery under a label: of a consumer, or of a get
    channel.consumer.n    a delivery id: the n-th delivery of a consumer

A ref has several candidates: consumers whose n-th delivery it may mean. It resolves to an unacked
delivery, to the tombstone of one whose queue was deleted, or to nothing. If the settlement names no
channel, a label is looked up on all channels of the user, newest first.

All refs of a settlement mean deliveries made before it, although settling the first may cause
deliveries. So the candidates on loaded channels are determined at once. Channels at rest have had
no delivery in this batch; they are only loaded when the ref is on no newer channel.
"""

from collections.abc import Iterator, Sequence

from streaming.broker.channels.channel import Candidate, Consumer
from streaming.broker.channels.registry import ChannelRegistry
from streaming.broker.state.schema import Delivery

MAX_DIGITS = 18
"""No delivery has a longer number, and Python refuses to parse thousands of digits."""


ResolvedRef = tuple[str, list[list[Candidate] | int], int]
"""Where the delivery of a ref may be: its label; lists of candidates, or numbers of channels at
rest, most likely first; the number of the delivery in each candidate. Refs with the same beginning
share one list, so that a channel is searched only once."""


def is_number(text: str) -> bool:
    """Whether a part of a ref is a number."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


class DeliveryRefs:
    """The refs of one settlement."""

    def __init__(
        self, channels: ChannelRegistry, user: str | None, channel_name: str | None
    ) -> None:
        self._channels = channels
        self._user = user
        self._channel_name = channel_name
        self._by_label: dict[str, list[list[Candidate] | int]] = {}
        self._by_id: dict[str, list[list[Candidate] | int]] = {}

    def resolve(self, ref: str) -> ResolvedRef:
        """Determine where the delivery may be, among those made so far."""
        label, slash, text = ref.rpartition("/")
        known = self._by_label
        if not slash:
            label, _dot, text = ref.rpartition(".")
            known = self._by_id
        if not is_number(text):
            return "", [], 0
        candidates = known.get(label)
        if candidates is None:
            candidates = self._with_label(label) if slash else self._with_id(label)
            known[label] = candidates
        return label, candidates, int(text)

    def take(self, ref: ResolvedRef) -> list[tuple[Consumer, Delivery]]:
        """Remove the delivery or tombstone from its consumer; empty if there is none."""
        _label, candidates, number = ref
        for known in candidates:
            loaded = self._load(ref, known) if isinstance(known, int) else known
            for consumer, first, deliveries in loaded:
                if number < deliveries:
                    delivery = consumer.deliveries.take(first + number)
                    if delivery is not None:
                        return [(consumer, delivery)]
        return []

    def runs(self, refs: Sequence[str]) -> list[tuple[ResolvedRef, int]]:
        """Resolve refs; those of consecutive deliveries become one run: the first, and how many."""
        found: list[tuple[ResolvedRef, int]] = []
        following: str | None = None
        for ref in refs:
            if ref == following:
                first, count = found[-1]
                found[-1] = first, count + 1
            else:
                found.append((self.resolve(ref), 1))
            (label, candidates, number), count = found[-1]
            following = f"{ref[: len(label) + 1]}{number + count}" if candidates else None
        return found

    def likely(self, ref: ResolvedRef) -> Candidate | None:
        """Return the consumer that a ref most likely means; None if its channel is at rest."""
        for known in ref[1]:
            if isinstance(known, int):
                return None
            if known:
                return known[0]
        return None

    def take_up_to(self, ref: ResolvedRef) -> list[tuple[Consumer, Delivery]]:
        """Remove it and all earlier ones of its channel (R-SET-3); empty if there is none."""
        for consumer, delivery in self.meant(ref):
            return consumer.channel.take_up_to(delivery.tag)
        return []

    def meant(self, ref: ResolvedRef) -> Iterator[tuple[Consumer, Delivery]]:
        """Yield the deliveries and tombstones that it may mean, most likely first."""
        _label, candidates, number = ref
        for known in candidates:
            loaded = self._load(ref, known) if isinstance(known, int) else known
            for consumer, first, deliveries in loaded:
                delivery = consumer.deliveries.find(first + number) if number < deliveries else None
                if delivery is not None:
                    yield consumer, delivery

    def _load(self, ref: ResolvedRef, channel_number: int) -> list[Candidate]:
        """Replace a channel at rest by its candidates."""
        label, candidates, _number = ref
        loaded = self._channels.by_number(channel_number).candidates(label, before_batch=True)
        candidates[candidates.index(channel_number)] = loaded
        return loaded

    def _with_id(self, consumer_id: str) -> list[list[Candidate] | int]:
        channel_text, _dot, consumer_text = consumer_id.partition(".")
        if not (is_number(channel_text) and is_number(consumer_text)):
            return []
        if not self._channels.exists(int(channel_text)):
            return []
        channel = self._channels.by_number(int(channel_text))
        consumer = channel.consumers.get(int(consumer_text))
        if channel.user != self._user or consumer is None:
            return []
        if self._channel_name not in {None, channel.name}:
            return []
        return [[(consumer, 0, consumer.next_number)]]

    def _with_label(self, label: str) -> list[list[Candidate] | int]:
        found: list[list[Candidate] | int] = []
        for number in self._channels.numbers_of(self._user, self._channel_name):
            if self._channels.is_loaded(number):
                found.append(self._channels.by_number(number).candidates(label))
            else:
                found.append(number)
        return found
