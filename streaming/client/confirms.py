"""Tracks unconfirmed publishes: each waits for Kafka's delivery report, then for the confirm.

A publish is known by a token until Kafka reports its partition and offset, which confirms name. A
confirm that arrives before the report is kept until then. Confirms of a partition arrive in its
order, so a publish that is skipped could not be read by the job: it is in `quarantine`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from streaming.client.errors import ClientError, QuarantinedError, UnroutableError
from streaming.client.messages import Returned

Place = tuple[int, int]
"""Partition and offset."""

Outcome = Callable[["Pending"], ClientError | None]


class Confirm(Future[None]):
    """The future of a publish.

    Attributes:
        in_transaction: the transaction is open; waiting inside its block would never end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_transaction = False

    def result(self, timeout: float | None = None) -> None:
        """Wait as `Future.result`; inside the block of its transaction raise at once."""
        self._check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `Future.exception`; inside the block of its transaction raise at once."""
        self._check()
        return super().exception(timeout)

    def _check(self) -> None:
        if self.in_transaction and not self.done():
            raise ClientError(
                "a publish in a transaction is confirmed after the commit: wait for it after the "
                "`with` block"
            )


class Pending:
    """A publish that is not confirmed."""

    __slots__ = ("future", "returned", "sent_s", "stored")

    def __init__(self) -> None:
        self.future = Confirm()
        self.sent_s = time.monotonic()
        self.stored = False  # Kafka has it
        self.returned: Returned | None = None


class Confirms:
    """The unconfirmed publishes of one publisher, oldest first.

    Args:
        limit: the most unconfirmed publishes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._unconfirmed: OrderedDict[int, Pending] = OrderedDict()
        self._stored: dict[int, OrderedDict[int, int]] = {}  # partition -> offset -> token
        self._early: dict[Place, list[tuple[Outcome, bool]]] = {}
        self._unreported = 0
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def new(self, timeout_s: float, *, in_transaction: bool = False) -> tuple[int, Pending] | None:
        """Add a publish; waits while the limit is reached, and returns None after `timeout_s`.

        Args:
            in_transaction: nobody may wait for it until `end_transaction`.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._unconfirmed) < self._limit, timeout_s):
                return None
            self._tokens += 1
            pending = self._unconfirmed[self._tokens] = Pending()
            pending.future.in_transaction = in_transaction
            self._unreported += 1
            return self._tokens, pending

    def wait_for_none(self, timeout_s: float | None) -> bool:
        """Wait until nothing is unconfirmed; False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unconfirmed, timeout_s)

    def stored(self, token: int, partition: int, offset: int) -> None:
        """Note that Kafka has stored a publish."""
        with self._changed:
            self._unreported -= 1
            pending = self._unconfirmed.get(token)
            early = self._early.pop((partition, offset), [])
            if not self._unreported:
                self._early.clear()
            if pending is None:
                return
            pending.stored = True
            self._stored.setdefault(partition, OrderedDict())[offset] = token
        for outcome, is_final in early:
            self._apply((partition, offset), outcome, is_final=is_final)

    def failed(self, token: int, error: ClientError, *, reported: bool = False) -> None:
        """Fail a publish.

        Args:
            reported: this is Kafka's delivery report; no other follows.
        """
        with self._changed:
            if reported:
                self._unreported -= 1
            pending = self._unconfirmed.pop(token, None)
            self._changed.notify_all()
        if pending is not None:
            _finish(pending, error)

    def returned(self, place: Place, message: Returned) -> None:
        """Note that the broker returned a publish; its confirm follows."""

        def outcome(pending: Pending) -> None:
            pending.returned = message

        self._apply(place, outcome, is_final=False)

    def confirmed(self, place: Place, error: ClientError | None) -> None:
        """Finish a publish: confirmed, or failed with the error; a returned one is unroutable."""

        def outcome(pending: Pending) -> ClientError | None:
            if error is None and pending.returned is not None:
                return UnroutableError(pending.returned)
            return error

        self._apply(place, outcome, is_final=True)

    def fail_all(self, error: ClientError) -> None:
        """Fail every unconfirmed publish."""
        for token in list(self._unconfirmed):
            self.failed(token, error)

    def fail_transaction(self, error: ClientError) -> None:
        """Fail every publish of the open transaction."""
        with self._changed:
            tokens = [
                token for token, each in self._unconfirmed.items() if each.future.in_transaction
            ]
        for token in tokens:
            self.failed(token, error)

    def end_transaction(self) -> None:
        """Let users wait for the publishes of the transaction; timeouts start now."""
        now_s = time.monotonic()
        with self._changed:
            for pending in self._unconfirmed.values():
                pending.sent_s = now_s
                pending.future.in_transaction = False

    def sent_before(self, instant_s: float) -> list[tuple[int, Pending]]:
        """Return the publishes sent before an instant of the monotonic clock, oldest first."""
        with self._changed:
            found = []
            for token, pending in self._unconfirmed.items():
                if pending.sent_s >= instant_s:
                    break
                found.append((token, pending))
            return found

    def stored_before(self, instant_s: float) -> dict[int, list[int]]:
        """Return partition -> tokens of the stored publishes that were sent before an instant."""
        with self._changed:
            found: dict[int, list[int]] = {}
            for partition, offsets in self._stored.items():
                for token in offsets.values():
                    pending = self._unconfirmed.get(token)
                    if pending is not None:
                        if pending.sent_s >= instant_s:
                            break
                        found.setdefault(partition, []).append(token)
            return found

    def skipped(self, tokens: Iterable[int]) -> None:
        """Fail publishes that the job has read without confirming them."""
        for token in tokens:
            self.failed(token, _quarantined())

    def _apply(self, place: Place, outcome: Outcome, *, is_final: bool) -> None:
        partition, offset = place
        skipped: list[Pending] = []
        with self._changed:
            offsets = self._stored.get(partition, OrderedDict())
            while offsets:
                first, token = next(iter(offsets.items()))
                if first >= offset:
                    break
                del offsets[first]
                earlier = self._unconfirmed.pop(token, None)
                if earlier is not None:
                    skipped.append(earlier)
            token = offsets.get(offset, 0)
            pending = self._unconfirmed.get(token)
            if pending is None:
                if self._unreported:
                    self._early.setdefault(place, []).append((outcome, is_final))
            elif is_final:
                del offsets[offset]
                del self._unconfirmed[token]
            self._changed.notify_all()
        for earlier in skipped:
            _finish(earlier, _quarantined())
        if pending is not None:
            error = outcome(pending)
            if is_final:
                _finish(pending, error)


def _quarantined() -> QuarantinedError:
    return QuarantinedError(
        "the job could not read the record, or it was too large: see the table quarantine for the "
        "cause"
    )


def _finish(pending: Pending, error: ClientError | None) -> None:
    with suppress(InvalidStateError):
        if error is None:
            pending.future.set_result(None)
        else:
            pending.future.set_exception(error)
