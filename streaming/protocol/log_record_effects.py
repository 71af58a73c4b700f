"""What a record of the log does to a fold of it, unless it is a publish."""

from collections.abc import Callable

from streaming.broker.events import Actor
from streaming.broker.sequence.log_fold import LogFold, Terms
from streaming.protocol.log_records import (
    LogKind,
    read_command,
    read_digest,
    read_epoch,
    read_settlements,
)


def fold_record(
    fold: LogFold,
    place: tuple[int, int],
    kind: int,
    epoch: int,
    value: bytes,
    actor: Actor,
    actor_of: Callable[[str | None, str], Actor] = Actor,
) -> None:
    """Fold a record that is no publish, and whose value can be read.

    Args:
        place: its offset and its instant, epoch milliseconds.
        kind, epoch, actor: as its `LogHeader` says.
        actor_of: interns the actors of settlements.

    Raises:
        OtherTermsError: it must not be folded by this program.
        FoldsDifferError: the fold that it was written for came to something else.
    """
    offset, at_ms = place
    if kind == LogKind.EPOCH:
        begun = read_epoch(value)
        fold.begin_epoch(at_ms, offset, Terms(begun.core_version, begun.rules))
        return
    if not fold.begin(offset, epoch):
        return
    if kind == LogKind.SETTLE:
        for each in read_settlements(value):
            fold.settle(
                at_ms,
                actor_of(each.user, each.channel),
                each.tag,
                each.last,
                multiple=each.multiple,
                outcome=each.outcome,
                reason=each.reason,
            )
    elif kind == LogKind.COMMAND:
        fold.command(at_ms, read_command(value), actor)
    elif kind == LogKind.TICK:
        fold.tick(at_ms)
    else:
        digest = read_digest(value)
        fold.compare(digest.boundary, digest.digest, digest.wide)
