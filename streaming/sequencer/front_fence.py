"""The fence of a front: which records of a log it may apply as its own, and what fences it off.

An epoch record fences off every front before it: `LogFold` counts nothing that they write behind
it. A front notices that somebody else has written by the offsets of its own records:

    Kafka acknowledges record n at   the expected offset   everything up to there is its own
                                     a later one           the log is read up to there, and each
                                                           record found is compared
                                     an earlier one        records were lost: it stops

    a record that is found is        its own               it is applied
                                     of an earlier epoch   it is void
                                     another epoch record  another front leads: it stops

Heartbeats (`leader_heartbeats.py`) only say sooner that another front leads; nothing depends on
them. What a replaced front still writes is void for every fold: `broker.sequence.log_fold`.
"""

import logging
from collections import deque
from collections.abc import Iterable

from streaming.protocol.log_records import LogHeader, LogKind
from streaming.sequencer.log_reader import RawRecord
from streaming.sequencer.log_writer import Acknowledged
from topology.errors import DlxError

logger = logging.getLogger(__name__)


class FencedOffError(DlxError):
    """The front must apply and confirm nothing more of the log."""


class FrontFence:
    """What a front that leads knows of the records behind its epoch record.

    Args:
        vhost: whose log it is.
        epoch: its epoch record.

    Attributes:
        found: records that were read where somebody else has written, to be compared.
    """

    def __init__(self, vhost: str, epoch: Acknowledged) -> None:
        self._vhost = vhost
        self._epoch = epoch.offset
        self._own = epoch
        self._unexpected: Acknowledged | None = None
        self._later: Acknowledged | None = None
        self._is_asked = False
        self.found: deque[RawRecord] = deque()

    @property
    def last_own(self) -> int:
        """The offset up to which the log is known to have nothing but the front's own records."""
        return self._own.offset

    def acknowledged(self, news: Acknowledged) -> None:
        """Note what Kafka has.

        Raises:
            FencedOffError: the log lacks records.
        """
        if self._unexpected is not None:
            self._later = news
            return
        expected = self._own.offset + news.number - self._own.number
        if news.offset == expected:
            self._own = news
        elif news.offset < expected:
            raise FencedOffError(
                f"Kafka has lost records of its log, or the topic was made again: a record is at "
                f"offset {news.offset}, and was expected at {expected}"
            )
        else:
            logger.warning(
                "vhost %s: a record is at offset %s of the log, and was expected at %s: somebody "
                "else writes there, so what is between is read before anything is confirmed",
                *(self._vhost, news.offset, expected),
            )
            self._unexpected = news

    def unread(self, position: int) -> tuple[int, int] | None:
        """The offsets that must be read from the log before it goes on; None: nothing, or again.

        Args:
            position: everything before it is applied.
        """
        if self._is_asked or self._unexpected is None or position > self._unexpected.offset:
            return None
        self._is_asked = True
        return position, self._unexpected.offset

    def read(self, records: Iterable[RawRecord]) -> None:
        """Take the records that `unread` asked for."""
        self._is_asked = False
        self.found.extend(records)

    def pass_unexpected(self, position: int) -> bool:
        """Go on behind the records that were compared; return whether that was possible.

        Raises:
            FencedOffError: the log lacks records.
        """
        if self._unexpected is None or position <= self._unexpected.offset:
            return False
        self._own, self._unexpected = self._unexpected, None
        later, self._later = self._later, None
        if later is not None:
            self.acknowledged(later)
        return True

    def compare(self, header: LogHeader, offset: int) -> None:
        """Judge a record that was found and is not the next of the front's own.

        Raises:
            FencedOffError: it fences the front off.
        """
        if header.kind == LogKind.EPOCH:
            raise FencedOffError(f"another front leads it since offset {offset} of its log")
        if header.epoch == self._epoch:
            raise FencedOffError(f"the log has an unknown record of this front at offset {offset}")
