"""Where copying from a partition of an input begins, and whether that is the topic it was."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from topology.errors import DlxError

logger = logging.getLogger(__name__)


class InputChangedError(DlxError):
    """An input is not the topic that was copied, or ends before what was copied of it."""

    help_code = "log-too-short"


class Bounds(NamedTuple):
    """What Kafka has of a partition.

    Attributes:
        committed: asks up to where it was read, and nobody needs it any more.
    """

    first: int
    end: int
    committed: Callable[[], int]


class InputPlace(NamedTuple):
    """A partition of an input of a vhost.

    Attributes:
        log: of the vhost.
        accepts_loss: go on with the topic as it is.
    """

    log: str
    topic: str
    partition: int
    accepts_loss: bool

    def begin(self, has: Bounds, wanted: int | None, ids: tuple[str | None, str]) -> int:
        """The first offset to copy.

        Args:
            wanted: the next one behind what was copied; None if nothing was.
            ids: of the topic that was copied, None if that is not known; and of the one there is.

        Raises:
            InputChangedError: what was copied is not in it.
        """
        if wanted is None:
            return has.first
        was, is_now = ids
        if was not in (None, is_now):
            if not self.accepts_loss:
                raise self.was_made_again(was, is_now)
            self._warn("of the topic that was made again from offset %s on", has.first)
            return has.first
        if wanted > has.end:
            if not self.accepts_loss:
                raise InputChangedError(
                    f"the input {self.topic}, partition {self.partition}, ends at offset "
                    f"{has.end}, and was copied into {self.log} up to {wanted}: Kafka has lost "
                    f"records, or the topic was made again. {_REMEDY}"
                )
            self._warn("from offset %s on, where it ends", has.end)
            return has.end
        if wanted < has.first and has.committed() < has.first:
            logger.error(
                "%s: records of %s, partition %s, were to be copied from offset %s on, and Kafka "
                "has %s to %s: what is missing is lost",
                *(self.log, self.topic, self.partition, wanted, has.first, has.end - 1),
            )
        return max(wanted, has.first)

    def was_made_again(self, was: str | None, is_now: str) -> InputChangedError:
        """The error that says so."""
        return InputChangedError(
            f"the input {self.topic} was deleted and made again: its id is {is_now}, and that of "
            f"the topic that was copied into {self.log} is {was}. {_REMEDY}"
        )

    def _warn(self, what: str, offset: int) -> None:
        text = "%s: goes on with the input %s, partition %s, " + what + ": --accept-loss was given"
        logger.warning(text, self.log, self.topic, self.partition, offset)


_REMEDY = (
    "Restore it, or start the front once with --accept-loss: it goes on with the topic as it is"
)
