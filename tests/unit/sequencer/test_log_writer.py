import asyncio

import pytest

from streaming.protocol.log_records import LOG, LogKind
from streaming.sequencer.log_writer import LogWriter
from streaming.sequencer.records import Record

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
"""No Kafka is there: everything waits for it."""


def records(count, size=1):
    return [Record(LogKind.TICK, 1, [(LOG, b"header")], b"x" * size, size) for _ in range(count)]


def nothing_is_told(news):
    pytest.fail(f"nobody took {news}")


def writing(steps, **properties):
    """Let `steps` use a writer on a loop, and a future that has the reason why it failed."""

    async def run():
        failed = asyncio.get_running_loop().create_future()
        writer = LogWriter({**NOBODY, **properties}, nothing_is_told, failed.set_result)
        try:
            return await steps(writer, failed)
        finally:
            writer.close(0.0)

    return asyncio.run(run())


def test_records_that_find_no_room_are_not_taken():
    async def steps(writer, failed):
        first, second = writer.append("log", records(5)), writer.append("log", records(2))
        return first, second, writer.appended("log"), len(writer), failed.done()

    found = writing(steps, **{"queue.buffering.max.messages": 3})

    assert found == (3, 0, 3, 3, False)


def test_records_of_each_log_are_counted():
    async def steps(writer, _failed):
        taken = [
            writer.append(log, records(count)) for log, count in (("a", 2), ("b", 1), ("a", 3))
        ]
        return taken, writer.appended("a"), writer.appended("b"), writer.appended("c")

    assert writing(steps) == ([2, 1, 3], 5, 1, 0)


def test_a_record_that_cannot_be_sent_is_told_and_ends_the_producer():
    async def steps(writer, failed):
        taken = writer.append("log", [*records(2), *records(1, size=2_000), *records(1)])
        return taken, writer.append("log", records(1)), await failed

    taken, behind, reason = writing(steps, **{"message.max.bytes": 1_000})

    assert (taken, behind) == (2, 0)
    assert "too large" in reason


def test_nothing_is_appended_twice_behind_a_record_that_cannot_be_written():
    async def steps(writer, failed):
        wrong = Record(LogKind.TICK, 1, [(LOG, 1)], b"", 0)  # type: ignore[list-item] # a mistake
        with pytest.raises(TypeError):
            writer.append("log", [*records(2), wrong])
        return writer.append("log", [*records(2), wrong]), len(writer), await failed

    behind, waiting, reason = writing(steps)

    assert (behind, waiting) == (0, 2)
    assert reason.startswith("TypeError: ")
