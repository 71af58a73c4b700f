"""Which publishes wait for what: Kafka's report first, then the broker's confirm.

A publish is known by a token until Kafka reports where it is, then by (partition, offset), which
is what confirms name. A confirm may overtake the report: it is kept until then. Confirms of a
partition come in its order, so a publish that is passed over was not understood: it is in
`quarantine`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING

from streaming.client.errors import ClientError, QuarantinedError, UnroutableError

if TYPE_CHECKING:
    from streaming.client.messages import Returned

Place = tuple[int, int]
"""Partition and offset."""

Outcome = Callable[["Pending"], ClientError | None]


class Confirm(Future[None]):
    """What becomes of a publish.

    Attributes:
        held: it is of a transaction that is open, in whose block waiting would never end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = False

    def result(self, timeout: float | None = None) -> None:
        """As `Future.result`; inside the transaction an error at once."""
        self._check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `Future.exception`; inside the transaction an error at once."""
        self._check()
        return super().exception(timeout)

    def _check(self) -> None:
        if self.held and not self.done():
            raise ClientError(
                "a publish of a transaction is confirmed after the commit: ask behind the `with` "
                "block"
            )


class Pending:
    """A publish that is not confirmed."""

    __slots__ = ("future", "returned", "sent_s", "taken")

    def __init__(self) -> None:
        self.future = Confirm()
        self.sent_s = time.monotonic()
        self.taken = False  # Kafka has it
        self.returned: Returned | None = None


class Confirms:
    """The unconfirmed publishes of one publisher, oldest first.

    Args:
        most: how many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._unconfirmed: OrderedDict[int, Pending] = OrderedDict()
        self._placed: dict[int, OrderedDict[int, int]] = {}  # partition -> offset -> token
        self._early: dict[Place, list[tuple[Outcome, bool]]] = {}
        self._unplaced = 0
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def new(self, timeout_s: float, *, held: bool = False) -> tuple[int, Pending] | None:
        """One more publish; waits for room while there are too many, and gives up with None.

        Args:
            held: it is of a transaction; until `wait_from_now` nobody may wait for it.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._unconfirmed) < self._most, timeout_s):
                return None
            self._tokens += 1
            pending = self._unconfirmed[self._tokens] = Pending()
            pending.future.held = held
            self._unplaced += 1
            return self._tokens, pending

    def wait_for_none(self, timeout_s: float | None) -> bool:
        """Wait until nothing is unconfirmed; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unconfirmed, timeout_s)

    def placed(self, token: int, partition: int, offset: int) -> None:
        """Kafka has it there."""
        with self._changed:
            self._unplaced -= 1
            pending = self._unconfirmed.get(token)
            early = self._early.pop((partition, offset), [])
            if not self._unplaced:
                self._early.clear()
            if pending is None:
                return
            pending.taken = True
            self._placed.setdefault(partition, OrderedDict())[offset] = token
        for outcome, ends in early:
            self._outcome((partition, offset), outcome, ends=ends)

    def failed(self, token: int, error: ClientError, *, reported: bool = False) -> None:
        """It will not be confirmed.

        Args:
            reported: Kafka said so, and will say nothing more of it.
        """
        with self._changed:
            if reported:
                self._unplaced -= 1
            pending = self._unconfirmed.pop(token, None)
            self._changed.notify_all()
        if pending is not None:
            _finish(pending, error)

    def returned(self, place: Place, message: Returned) -> None:
        """It came back; the confirm follows."""

        def outcome(pending: Pending) -> None:
            pending.returned = message

        self._outcome(place, outcome, ends=False)

    def confirmed(self, place: Place, error: ClientError | None) -> None:
        """The broker has it, or says why not; what came back is unroutable."""

        def outcome(pending: Pending) -> ClientError | None:
            if error is None and pending.returned is not None:
                return UnroutableError(pending.returned)
            return error

        self._outcome(place, outcome)

    def fail_all(self, error: ClientError) -> None:
        """None will be confirmed."""
        for token in list(self._unconfirmed):
            self.failed(token, error)

    def fail_held(self, error: ClientError) -> None:
        """None of those that are held will be confirmed."""
        with self._changed:
            held = [token for token, each in self._unconfirmed.items() if each.future.held]
        for token in held:
            self.failed(token, error)

    def wait_from_now(self) -> None:
        """Count the time of all that wait from now on; none is held any more."""
        now_s = time.monotonic()
        with self._changed:
            for pending in self._unconfirmed.values():
                pending.sent_s = now_s
                pending.future.held = False

    def late(self, before_s: float) -> list[tuple[int, Pending]]:
        """Those that were sent before an instant of the monotonic clock."""
        with self._changed:
            found = []
            for token, pending in self._unconfirmed.items():
                if pending.sent_s >= before_s:
                    break
                found.append((token, pending))
            return found

    def late_places(self, before_s: float) -> dict[int, list[int]]:
        """Partition -> tokens of what Kafka has taken and that was sent before an instant."""
        with self._changed:
            found: dict[int, list[int]] = {}
            for partition, offsets in self._placed.items():
                for token in offsets.values():
                    pending = self._unconfirmed.get(token)
                    if pending is not None:
                        if pending.sent_s >= before_s:
                            break
                        found.setdefault(partition, []).append(token)
            return found

    def passed_over(self, tokens: Iterable[int]) -> None:
        """The job is past these: those that are still unconfirmed were not understood."""
        for token in tokens:
            self.failed(token, not_understood())

    def _outcome(
        self,
        place: Place,
        outcome: Outcome,
        *,
        ends: bool = True,
    ) -> None:
        partition, offset = place
        passed_over: list[Pending] = []
        with self._changed:
            offsets = self._placed.get(partition, OrderedDict())
            while offsets:
                first, token = next(iter(offsets.items()))
                if first >= offset:
                    break
                del offsets[first]
                passed = self._unconfirmed.pop(token, None)
                if passed is not None:
                    passed_over.append(passed)
            token = offsets.get(offset, 0)
            pending = self._unconfirmed.get(token)
            if pending is None:
                if self._unplaced:
                    self._early.setdefault(place, []).append((outcome, ends))
            elif ends:
                del offsets[offset]
                del self._unconfirmed[token]
            self._changed.notify_all()
        for passed in passed_over:
            _finish(passed, not_understood())
        if pending is not None:
            error = outcome(pending)
            if ends:
                _finish(pending, error)


def not_understood() -> QuarantinedError:
    """The job has passed a publish over and said nothing of it."""
    return QuarantinedError(
        "the job could not understand the record, or it was too large: the table quarantine has "
        "it, with the cause"
    )


def _finish(pending: Pending, error: ClientError | None) -> None:
    with suppress(InvalidStateError):
        if error is None:
            pending.future.set_result(None)
        else:
            pending.future.set_exception(error)
