"""The lease of a channel: the broker closes a channel whose lease ends."""

import time
from collections.abc import Callable
from typing import Any

from streaming.client._transport.link import Link

RENEWALS_PER_LEASE = 3


class Lease:
    """Renews the lease of one channel, and reopens the channel if the broker has closed it.

    Args:
        name: the channel's name.
        lease_s: how long the broker keeps a channel without a command.
        reopened: called on the reader's thread when the broker had closed the channel and it is
            being reopened; everything that was on it is gone.
    """

    def __init__(self, link: Link, name: str, lease_s: float, reopened: Callable[[], None]) -> None:
        self._link = link
        self._name = name
        self.lease_ms = max(round(lease_s * 1000), 1)
        self._reopened = reopened
        self._number: int | None = None  # the broker's: a reopened channel has another one
        self._reopening = False  # the broker's new number is not known yet
        self._renewed_s = 0.0  # when the last renewal was sent
        self._asked_s = 0.0  # when the renewal without an answer was sent; 0: there is none
        self._wanted = False

    def open(self) -> None:
        """Open the channel at the broker."""
        self._opened(self._link.commands.request(self._open_command(), self._name))
        self._renewed_s = time.monotonic()
        self._wanted = True

    def end(self) -> None:
        """Stop renewing."""
        self._wanted = False

    def renew_if_due(self, now_s: float) -> None:
        """Renew after a third of the lease, and report a job that does not answer.

        Other commands renew the lease too, but only the answer to a renewal tells whether the
        broker has closed the channel in the meantime.
        """
        if not self._wanted:
            return
        link = self._link
        if self._asked_s:
            if now_s - self._asked_s > link.timeout_s:
                self._asked_s = self._renewed_s = 0.0  # sent again at the next call
                if now_s - link.liveness.heard_s > link.timeout_s:
                    error = link.commands.no_answer("the renewal of a channel", link.timeout_s)
                    link.outages.no_answer(str(error))
        elif now_s - self._renewed_s > self.lease_ms / 1000 / RENEWALS_PER_LEASE:
            self._renewed_s = self._asked_s = now_s
            link.commands.request_async({"op": "renew"}, self._name, self._renewed)

    def check(self, answer: dict[str, Any]) -> None:
        """Reopen the channel if the answer to a renewal shows that it is another one."""
        # A later command may have reopened the channel with only a part of what was on it, so
        # close it first.
        if self._wanted and not self._reopening and answer["number"] != self._number:
            self._reopening = True
            self._link.commands.send({"op": "close_channel"}, self._name)
            self._link.commands.request_async(self._open_command(), self._name, self._opened)
            self._reopened()

    def _renewed(self, answer: dict[str, Any]) -> None:
        self._asked_s = 0.0
        self.check(answer)

    def _open_command(self) -> dict[str, Any]:
        return {"op": "open_channel", "lease_ms": self.lease_ms}

    def _opened(self, answer: dict[str, Any]) -> None:
        self._number = answer["number"]
        self._reopening = False
