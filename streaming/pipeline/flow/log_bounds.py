"""Up to where the logs of sequenced vhosts may be read, where they go on on other terms."""

from collections.abc import Mapping
from typing import Final

from streaming.broker.sequence.log_fold import OtherTermsError

_ALL: Final = 1 << 62

Positions = Mapping[str, Mapping[str, int]]


class LogBounds:
    """The bounds of one attempt of a job.

    A source that may read N records reads no more than N of each of its topics.

    Args:
        errors: log -> why it must not be read from `offset` on.
        begins: topic -> partition -> where the next batch begins.

    Attributes:
        begins: the same, behind the last batch that was committed.
    """

    def __init__(
        self, errors: Mapping[str, OtherTermsError] | None = None, begins: Positions | None = None
    ) -> None:
        self._errors = errors or {}
        self.begins = begins or {}
        self._has_committed = False

    def committed(self, ends: Positions) -> None:
        """Note where a batch has ended that is committed."""
        self.begins = ends
        self._has_committed = True

    def rows(self) -> int:
        """How many records of any topic the next batch may have."""
        return max(0, min((self._left(log) for log in self._errors), default=_ALL))

    def reached(self) -> OtherTermsError | None:
        """Why the job can read no more; None as long as it can."""
        return next((error for log, error in self._errors.items() if not self._left(log)), None)

    def end(self) -> None:
        """End the job behind a batch that has come to a bound.

        Raises:
            OtherTermsError: one has.
        """
        error = self.reached() if self._has_committed else None
        if error is not None:
            raise error

    def _left(self, log: str) -> int:
        return self._errors[log].offset - self.begins.get(log, {}).get("0", 0)
