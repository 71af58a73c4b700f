"""The messages that a batch put into queues although they were in none; tasks need no DuckDB."""

from typing import Final

from streaming.broker.events import Events, Kind

Key = tuple[int, int, int]
"""Topic number, partition and offset of a message."""

_REVIVING: Final = frozenset({int(Kind.REPUBLISHED), int(Kind.REDRIVEN)})


def revived_keys(events: Events) -> list[Key]:
    """The messages that a batch put into queues although they were in none."""
    found: dict[Key, None] = {}
    for row, detail in events.details.items():
        if events.kinds[row] not in _REVIVING:
            continue
        edit = detail.get("edit")
        if edit is not None:
            topic_number, partition, offset = edit["message"]
            found[topic_number, partition, offset] = None
        elif events.kinds[row] == Kind.REPUBLISHED:
            copy = events.copies[row]
            assert copy is not None, "a letter is a copy"
            message = copy.message
            found[message.topic_number, message.partition, message.offset] = None
    return list(found)
