"""A message in two sentences: what happened to it, and where it is now. Its deaths, by cause.

copies of a message --> "It died 3 times in work: anna rejected it. It was redriven."
                    --> "It waits in parked."
                    --> what can be done: redrive it, publish it again, restore it
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from streaming.queries.ends import end_of_letter
from streaming.queries.life.copies import CopyLife
from streaming.queries.message_history import LOSSES
from topology.sentences import Sentence, say, say_count

Todo = Literal["", "redrive", "publish", "restore"]

_TAKEN: Final = ("acked", "consumed")


class Cause(msgspec.Struct):
    """The deaths of a message in one queue for one reason.

    Attributes:
        why: of the last of them, in words.
        first_at, last_at: when the first and the last of them was.
    """

    queue: str
    reason: str
    count: int
    why: Sentence
    first_at: str
    last_at: str


class Summary(msgspec.Struct, frozen=True):
    """What to know of a message first.

    Attributes:
        happened, now: in sentences.
        todo: what can be done: redrive it from where it waits, publish it again from the tables,
            or restore it; empty: nothing, or nothing is needed.
        causes: why it died, the first death first.
        back_to: the queue to which a redrive sends it: where it first died; empty: none can.
    """

    happened: list[Sentence]
    now: Sentence
    todo: Todo
    causes: list[Cause]
    back_to: str = ""


def summary_of(
    copies: Sequence[CopyLife], now: Mapping[int, str], *, has_content: bool = True
) -> Summary:
    """Sum up the copies of a message.

    Args:
        now: the state of each copy that is in a queue.
        has_content: whether its body is stored, so that it can be sent.
    """
    causes = _causes(copies)
    redriven = sum(copy.end == "redriven" for copy in copies)
    republished = sum(copy.end == "republished" for copy in copies)
    happened = [_died(causes)] if causes else []
    if redriven:
        happened.append(say_count("It was redriven.", "It was redriven %(count)s times.", redriven))
    if republished:
        happened.append(
            say_count(
                "It was published again.", "It was published again %(count)s times.", republished
            )
        )
    there = [copy for copy in copies if copy.copy_id in now]
    taken = list(dict.fromkeys(copy.queue for copy in copies if copy.end in _TAKEN))
    died = {copy.copy_id for copy in copies if copy.why is not None}
    todo: Todo = ""
    if there:
        letters = [
            one for one in there if now[one.copy_id] == "ready" and one.parent_copy_id in died
        ]
        back_to = ""
        if letters and has_content:
            todo, back_to = "redrive", _first_queue(copies, letters[0], died)
        return Summary([*happened, *_taken(taken)], _there(there, now), todo, causes, back_to)
    last = max(
        (copy for copy in copies if copy.left_at and not copy.children),
        key=lambda copy: (copy.copy_id in died, copy.left_at or "", copy.copy_id),
        default=None,
    )
    if last is not None and last.end == "discarded":
        todo = "restore"
    elif last is not None and (last.copy_id in died or _is_letter(last, died)):
        todo = "publish"
    if taken and last is not None and last.end not in _TAKEN:
        happened += _taken(taken)
        if last.why is not None:
            return Summary(happened, _lost_copy(last), todo if has_content else "", causes)
    return Summary(happened, _gone(copies, last, taken), todo if has_content else "", causes)


def _causes(copies: Sequence[CopyLife]) -> list[Cause]:
    found: dict[tuple[str, str], Cause] = {}
    for copy in sorted(copies, key=lambda one: (one.left_at or "", one.copy_id)):
        if copy.why is None:
            continue
        reason, at = copy.reason or "", copy.left_at or ""
        key = (copy.queue, reason)
        known = found.setdefault(key, Cause(copy.queue, reason, 0, copy.why, at, at))
        known.count, known.why, known.last_at = known.count + 1, copy.why, at
    return list(found.values())


def _died(causes: Sequence[Cause]) -> Sentence:
    first = causes[0]
    if len(causes) == 1:
        return say_count(
            "It died in %(queue)s: %(why)s.",
            "It died %(count)s times in %(queue)s: %(why)s.",
            first.count,
            queue=first.queue,
            why=first.why,
        )
    last = max(causes, key=lambda one: one.last_at)
    if last is first:  # it came back
        last = causes[-1]
    return say_count(
        "It died %(count)s time: first in %(queue)s (%(why)s), and then in %(last)s "
        "(%(last_why)s).",
        "It died %(count)s times: first in %(queue)s (%(why)s), and then in %(last)s "
        "(%(last_why)s).",
        sum(one.count for one in causes),
        queue=first.queue,
        why=first.why,
        last=last.queue,
        last_why=last.why,
    )


def _there(there: Sequence[CopyLife], now: Mapping[int, str]) -> Sentence:
    if len(there) > 1:
        names = ", ".join(dict.fromkeys(one.queue for one in there))
        return say_count(
            "%(count)s copy of it is in %(queues)s.",
            "%(count)s copies of it are in %(queues)s.",
            len(there),
            queues=names,
        )
    [one] = there
    match now[one.copy_id]:
        case "unacked":
            return say("A consumer of %(queue)s has it.", queue=one.queue)
        case "held":
            return say(
                "%(queue)s holds it until its dead-letter targets accept it.", queue=one.queue
            )
    return say("It waits in %(queue)s.", queue=one.queue)


def _taken(queues: Sequence[str]) -> list[Sentence]:
    return [say("It was acked in %(queues)s.", queues=", ".join(queues))] if queues else []


def _first_queue(copies: Sequence[CopyLife], letter: CopyLife, died: set[int]) -> str:
    """The queue of the first death on the way of a letter."""
    known = {copy.copy_id: copy for copy in copies}
    found, parent = letter.queue, letter.parent_copy_id
    while parent is not None and parent in known:
        if parent in died:
            found = known[parent].queue
        parent = known[parent].parent_copy_id
    return found


def _is_letter(last: CopyLife, died: set[int]) -> bool:
    """Whether a copy that was removed came from a death, so that a redrive can bring it back."""
    return last.end in {"purged", "deleted"} and last.parent_copy_id in died


def _lost_copy(last: CopyLife) -> Sentence:
    if end_of_letter(last.outcome, last.reason) == "dropped":
        return say(
            "Another copy of it was dropped when it died in %(queue)s: no queue was to take it.",
            queue=last.queue,
        )
    return say("Another copy of it was lost when it died in %(queue)s.", queue=last.queue)


def _taken_at(copies: Sequence[CopyLife]) -> str:
    """The queues that took a message, each with the last instant."""
    found: dict[str, str] = {}
    for copy in copies:
        if copy.end in _TAKEN:
            found[copy.queue] = max(found.get(copy.queue, ""), copy.left_at or "")
    return ", ".join(f"{queue} ({at[:19].replace('T', ' ')})" for queue, at in found.items())


def _gone(copies: Sequence[CopyLife], last: CopyLife | None, taken: Sequence[str]) -> Sentence:
    if last is None:
        return say("It is in no queue.")
    match last.end:
        case "acked" | "consumed":
            queues = ", ".join(taken)
            if all(copy.why is None for copy in copies):
                return say(
                    "It never died: it was acked in %(queues)s. It is in no queue now.",
                    queues=_taken_at(copies),
                )
            return say("It was acked in %(queue)s, so nothing is left to do.", queue=queues)
        case "purged":
            return say("It was purged from %(queue)s.", queue=last.queue)
        case "deleted":
            return say("It was deleted with its queue %(queue)s.", queue=last.queue)
        case "discarded":
            return say("It was discarded from %(queue)s.", queue=last.queue)
    if last.why is not None:
        if end_of_letter(last.outcome, last.reason) == "dropped":
            return say(
                "It was dropped when it died in %(queue)s: no queue was to take it.",
                queue=last.queue,
            )
        because = LOSSES.get(last.outcome or "")
        if because is None:
            return say("It was lost when it died in %(queue)s.", queue=last.queue)
        return say(
            "It was lost when it died in %(queue)s: %(why)s.", queue=last.queue, why=say(because)
        )
    return say("It is in no queue.")
