"""How a vhost is doing in a front, in numbers, for its metrics."""

import msgspec

from streaming.sequencer.job_lag import Lag
from streaming.sequencer.log_vhost import Backlog


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """One vhost of a front.

    Attributes:
        topic: its log.
        leads: whether clients can open it here.
        epoch: offset of the epoch record of this front, or of the last one that it has led with;
            None if it has not led.
        next_offset: of the next record to be folded.
        backlog: records on their way to be applied.
        oldest_s: for how long the oldest of them waits; 0 if there is none.
        takeovers: how often this process began to lead it.
        takeover_s: how long that took the last time, from the epoch record on.
        losses: how often it was replaced, or failed.
        digests_written, digests_compared: since the vhost was opened.
        body_bytes, max_body_bytes: of messages in memory.
        fetches: how often messages were read from the log.
        snapshot_at: offset of the newest snapshot that it wrote, or began with; 0 for none.
        job_lag: how far the job is behind; None if it does not lead, or no job follows.
        snapshot_s: when it wrote that, epoch seconds; None if it has not written any.
    """

    topic: str
    leads: bool = False
    epoch: int | None = None
    next_offset: int = 0
    backlog: Backlog = Backlog()
    oldest_s: float = 0.0
    takeovers: int = 0
    takeover_s: float | None = None
    losses: int = 0
    digests_written: int = 0
    digests_compared: int = 0
    body_bytes: int = 0
    max_body_bytes: int = 0
    fetches: int = 0
    snapshot_at: int = 0
    snapshot_s: float | None = None
    job_lag: Lag | None = None
