"""How many publishes the next batch may read: a gate that memory use closes (D9).

Only publishes are throttled, never commands. Resident messages and the job's processes each have
a high and a low mark. The gate closes when one of them is above its high mark, and opens once both
are below their low marks again.

A gate closed by resident messages lets no publishes in: consumers make room by commands. A gate
closed by processes lets small batches in, because the memory of processes depends on the size of
batches, and might otherwise never fall (D11).
"""

from streaming.ledger.batch_detail import GateCause, GateState
from streaming.pipeline.flow.memory import MemoryMarks

UNKNOWN_MEAN_BYTES = 1024
"""The assumed size of a message before any has arrived."""

THROTTLED_PARTS = 100
"""While processes use too much memory, a batch has at most this part of its usual publishes."""


class Gate:
    """Decides how many publishes the next batch may read.

    Args:
        max_rows: the most publishes of a batch if there is room.
        max_bytes: the most bytes of a batch's bodies, estimated by the recent mean; None: no limit.
        is_open: whether resident messages were below their mark when the job ended.
        has_inputs: whether it lets in publishes that no front has accepted already; without them,
            the room below the mark of resident messages limits no batch.
    """

    def __init__(
        self,
        marks: MemoryMarks,
        max_rows: int,
        *,
        max_bytes: int | None = None,
        is_open: bool = True,
        has_inputs: bool = True,
    ) -> None:
        self._marks = marks
        self._has_inputs = has_inputs
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._resident_fits = is_open
        self._processes_fit = True

    def decide(
        self, resident_bytes: int, mean_bytes: float, process_bytes: int | None = None
    ) -> GateState:
        """Return the state of the gate for the current memory use.

        Args:
            resident_bytes: without messages of sequenced vhosts, for which the front has a mark.
            mean_bytes: recent mean size of messages; 0: none has arrived yet.
        """
        marks = self._marks
        most = self._rows_of_a_batch(mean_bytes)
        if marks.high_bytes is None or marks.low_bytes is None:
            return GateState(resident_bytes, most, "off", open=True, process_bytes=process_bytes)
        if resident_bytes > marks.high_bytes:
            self._resident_fits = False
        elif resident_bytes < marks.low_bytes:
            self._resident_fits = True
        if process_bytes is not None and marks.process_high_bytes and marks.process_low_bytes:
            if process_bytes > marks.process_high_bytes:
                self._processes_fit = False
            elif process_bytes < marks.process_low_bytes:
                self._processes_fit = True
        fits = most
        if self._has_inputs:
            headroom = max(marks.high_bytes - resident_bytes, 0)
            fits = int(headroom / max(mean_bytes or UNKNOWN_MEAN_BYTES, 1.0)) or 1
        cause: GateCause = "below" if fits >= most else "between"
        rows = min(most, fits)
        if not self._resident_fits:
            cause, rows = "above", 0
        elif not self._processes_fit:
            cause, rows = "memory", min(max(most // THROTTLED_PARTS, 1), fits)
        is_open = self._resident_fits and self._processes_fit
        return GateState(resident_bytes, rows, cause, is_open, process_bytes)

    def _rows_of_a_batch(self, mean_bytes: float) -> int:
        if self._max_bytes is None:
            return self._max_rows
        return min(self._max_rows, max(1, int(self._max_bytes / max(mean_bytes, 1.0))))
