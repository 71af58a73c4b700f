"""Tracks unconfirmed publishes: each waits for Kafka's delivery report, then for the confirm.

Confirms name the partition and offset that Kafka reports. A confirm that arrives before the report
is kept until then. Confirms of a partition arrive in its order, so a publish that is skipped could
not be read by the job: it is in `quarantine`.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import takewhile

from streaming.client.errors import (
    ClientError,
    ConfirmTimeoutError,
    QuarantinedError,
    UnroutableError,
)
from streaming.client.messages import Returned
from streaming.waiting import Changes, SafeCondition

Position = tuple[int, int]
"""Partition and offset."""

Outcome = Returned | ClientError | None
"""What the broker says about a publish: returned, so far; failed; or confirmed."""


class Confirm(Future[None]):
    """The future of a publish that is not confirmed.

    Attributes:
        in_transaction: the transaction is open; waiting inside its block would never end.
        sent_s: when it was sent, on the monotonic clock.
        is_stored: whether Kafka has it.
        returned: the message, if the broker returned it.
    """

    def __init__(self, *, in_transaction: bool) -> None:
        super().__init__()
        self._condition = SafeCondition()
        self._ended = Changes()
        self.in_transaction = in_transaction
        self.sent_s = time.monotonic()
        self.is_stored = False
        self.returned: Returned | None = None

    def finish(self, error: ClientError | None) -> None:
        """Complete the future, unless it is complete."""
        with suppress(InvalidStateError):
            if error is None:
                self.set_result(None)
            else:
                self.set_exception(error)
        self._ended.tell()

    def result(self, timeout: float | None = None) -> None:
        """Wait as `Future.result`; inside the block of its transaction raise at once.

        Raises:
            ConfirmTimeoutError: not confirmed within `timeout` seconds.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `Future.exception`; inside the block of its transaction raise at once.

        Raises:
            ConfirmTimeoutError: neither confirmed nor failed within `timeout` seconds.
        """
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout_s: float | None) -> None:
        self.check()
        if not self._ended.wait_for(self.done, timeout_s):
            raise ConfirmTimeoutError(
                f"the message was not confirmed within {timeout_s:g} s; it may still be"
            )

    def check(self) -> None:
        """Raise ClientError while the transaction is open."""
        if self.in_transaction and not self.done():
            raise ClientError(
                "a publish in a transaction is confirmed after the commit: wait for it after the "
                "`with` block"
            )


class Confirms:
    """The unconfirmed publishes of one publisher, oldest first.

    Args:
        limit: the most unconfirmed publishes.
        in_order: whether the broker confirms a partition's publishes in their order; the lanes of a
            vhost with several do not wait for each other.
    """

    def __init__(self, limit: int, *, in_order: bool = True) -> None:
        self._limit = limit
        self._in_order = in_order
        self._lock = threading.Lock()
        self._changes = Changes()
        self._unconfirmed: dict[Confirm, None] = {}
        # By partition and offset; a plain dict is slow to pop its first item.
        self._stored: defaultdict[int, OrderedDict[int, Confirm]] = defaultdict(OrderedDict)
        self._early: dict[Position, list[Outcome]] = {}
        self._unreported: set[Confirm] = set()

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def add(self, pending: Confirm, timeout_s: float) -> bool:
        """Add a publish; waits while the limit is reached, and returns False after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while not self._has_added(pending):
            left_s = deadline_s - time.monotonic()
            if not self._changes.wait_for(lambda: len(self._unconfirmed) < self._limit, left_s):
                return False
        return True

    def wait_for_none(self, timeout_s: float | None) -> bool:
        """Wait until nothing is unconfirmed; False after `timeout_s`."""
        return self._changes.wait_for(lambda: not self._unconfirmed, timeout_s)

    def stored(self, pending: Confirm, place: Position) -> None:
        """Note where Kafka has stored a publish."""
        with self._lock:
            self._unreported.discard(pending)
            early = self._early.pop(place, [])
            if not self._unreported:
                self._early.clear()
            if pending not in self._unconfirmed:
                return
            pending.is_stored = True
            self._stored[place[0]][place[1]] = pending
        for outcome in early:
            self._apply(place, outcome)

    def failed(self, pending: Confirm, error: ClientError, *, reported: bool = False) -> None:
        """Fail a publish, unless it is confirmed.

        Args:
            reported: this is Kafka's delivery report; no other follows.
        """
        with self._lock:
            if reported:
                self._unreported.discard(pending)
            is_unconfirmed = pending in self._unconfirmed
            self._unconfirmed.pop(pending, None)
        self._changes.tell()
        if is_unconfirmed:
            pending.finish(error)

    def returned(self, place: Position, message: Returned) -> None:
        """Note that the broker returned a publish; its confirm follows."""
        self._apply(place, message)

    def confirmed(self, place: Position, error: ClientError | None) -> None:
        """Finish a publish: confirmed, or failed with the error; a returned one is unroutable."""
        self._apply(place, error)

    def fail_all(self, error: ClientError) -> None:
        """Fail every unconfirmed publish."""
        for pending in list(self._unconfirmed):
            self.failed(pending, error)

    def fail_transaction(self, error: ClientError) -> None:
        """Fail every publish of the open transaction."""
        with self._lock:
            open_ones = [each for each in self._unconfirmed if each.in_transaction]
        for pending in open_ones:
            self.failed(pending, error)

    def end_transaction(self) -> None:
        """Let users wait for the publishes of the transaction; timeouts start now."""
        now_s = time.monotonic()
        with self._lock:
            for pending in self._unconfirmed:
                pending.sent_s = now_s
                pending.in_transaction = False

    def sent_before(self, instant_s: float) -> list[Confirm]:
        """Return the publishes sent before an instant of the monotonic clock, oldest first."""
        with self._lock:
            return list(takewhile(lambda each: each.sent_s < instant_s, self._unconfirmed))

    def stored_before(self, instant_s: float) -> dict[int, list[Confirm]]:
        """Return partition -> the stored publishes that were sent before an instant."""
        with self._lock:
            found = {
                partition: list(
                    takewhile(
                        lambda each: each.sent_s < instant_s,
                        (each for each in offsets.values() if each in self._unconfirmed),
                    )
                )
                for partition, offsets in self._stored.items()
            }
        return {partition: late for partition, late in found.items() if late}

    def skipped(self, publishes: Iterable[Confirm]) -> None:
        """Fail publishes that the job has read without confirming them."""
        for pending in publishes:
            self.failed(pending, _quarantined())

    def _has_added(self, pending: Confirm) -> bool:
        with self._lock:
            if len(self._unconfirmed) >= self._limit:
                return False
            pending.sent_s = time.monotonic()
            self._unreported.add(pending)
            self._unconfirmed[pending] = None
            return True

    def _apply(self, place: Position, outcome: Outcome) -> None:
        partition, offset = place
        with self._lock:
            offsets = self._stored[partition]
            earlier: list[int] = []
            if self._in_order:
                earlier = list(takewhile(lambda each: each < offset, offsets))
            passed = [offsets.pop(each) for each in earlier]
            skipped = [each for each in passed if each in self._unconfirmed]
            pending = offsets.get(offset)
            if pending is None or pending not in self._unconfirmed:
                pending = None
                if self._unreported:
                    self._early.setdefault(place, []).append(outcome)
            elif not isinstance(outcome, Returned):
                del offsets[offset]
                del self._unconfirmed[pending]
            for each in skipped:
                del self._unconfirmed[each]
        self._changes.tell()
        for each in skipped:
            each.finish(_quarantined())
        if pending is None:
            return
        if isinstance(outcome, Returned):
            pending.returned = outcome
        elif outcome is None and pending.returned is not None:
            pending.finish(UnroutableError(pending.returned))
        else:
            pending.finish(outcome)


def _quarantined() -> QuarantinedError:
    return QuarantinedError(
        "the job could not read the record, or it was too large: see the table quarantine for the "
        "cause"
    )
