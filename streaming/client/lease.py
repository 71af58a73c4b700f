"""The lease of a channel: renewed before it ends, and put right where it ended all the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.client.connection import Connection

RENEWALS_A_LEASE = 3


class Lease:
    """Keeps one channel open at the broker.

    Args:
        name: the channel's.
        lease_ms: how long the broker keeps it without hearing of it.
        reopened: called, on the reader's thread, when the broker had closed the channel and it is
            being opened again: everything that was on it is gone.
    """

    def __init__(
        self, connection: Connection, name: str, lease_ms: int, reopened: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._name = name
        self.lease_ms = lease_ms
        self._reopened = reopened
        self._number: int | None = None  # the broker's: another one when it was opened anew
        self._reopening = False  # the broker's new number is not known yet
        self._renewed_s = 0.0  # when it was last renewed from here
        self._asked_s = 0.0  # when a renewal was sent that is not answered yet; 0: none
        self._wanted = False

    def open(self) -> None:
        """Open the channel at the broker."""
        self._opened(self._connection.ask(self._open_document(), self._name))
        self._renewed_s = time.monotonic()
        self._wanted = True

    def end(self) -> None:
        """Renew it no more."""
        self._wanted = False

    def renew_if_due(self, now_s: float) -> None:
        """Renew the lease when a third of it has passed; notice a job that does not answer.

        Other commands renew it as well, but only the answer to this one says that the channel is
        still the one that was opened.
        """
        if not self._wanted:
            return
        if self._asked_s:
            timeout_s = self._connection.timeout_s
            if now_s - self._asked_s > timeout_s:
                self._asked_s = self._renewed_s = 0.0  # asked again at the next moment
                if now_s - self._connection.heard_s > timeout_s:
                    silent = self._connection.job_silent("the renewal of a channel", timeout_s)
                    self._connection.outages.no_answer(str(silent))
        elif now_s - self._renewed_s > self.lease_ms / 1000 / RENEWALS_A_LEASE:
            self._renewed_s = self._asked_s = now_s
            self._connection.ask_later({"op": "renew"}, self._name, self._renewed)

    def check(self, answer: dict[str, Any]) -> None:
        """See by the answer to a renewal whether the channel is still the one that was opened."""
        # What is on a channel that a later command opened anew may be half of what should be, so
        # it is closed before it is opened.
        if self._wanted and not self._reopening and answer["number"] != self._number:
            self._reopening = True
            self._connection.tell({"op": "close_channel"}, self._name)
            self._connection.ask_later(self._open_document(), self._name, self._opened)
            self._reopened()

    def _renewed(self, answer: dict[str, Any]) -> None:
        self._asked_s = 0.0
        self.check(answer)

    def _open_document(self) -> dict[str, Any]:
        return {"op": "open_channel", "lease_ms": self.lease_ms}

    def _opened(self, answer: dict[str, Any]) -> None:
        self._number = answer["number"]
        self._reopening = False
