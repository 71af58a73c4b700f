import asyncio

import pytest

from streaming.protocol.log_records import LOG, LogKind
from streaming.sequencer.log_writer import LogWriter
from streaming.sequencer.records import Record

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
"""No Kafka is there: everything waits for it."""


def records(count, size=1):
    return [Record(LogKind.TICK, 1, [(LOG, b"header")], b"x" * size, size) for _ in range(count)]


class Heard(list):
    """Why a producer failed."""

    async def reason(self):
        while not self:
            await asyncio.sleep(0.01)
        return self[0]


@pytest.fixture
def failures():
    return Heard()


def writing(failures, steps, **properties):
    """Let `steps` use a writer on a loop."""

    async def run():
        writer = LogWriter({**NOBODY, **properties}, pytest.fail, failures.append)
        try:
            return await steps(writer)
        finally:
            writer.close(0.0)

    return asyncio.run(run())


def test_records_that_find_no_room_are_not_taken(failures):
    async def steps(writer):
        first, second = writer.append("log", records(5)), writer.append("log", records(2))
        return first, second, writer.appended("log"), len(writer)

    found = writing(failures, steps, **{"queue.buffering.max.messages": 3})

    assert found == (3, 0, 3, 3)
    assert not failures


def test_records_of_each_log_are_counted(failures):
    async def steps(writer):
        taken = [writer.append(log, records(count)) for log, count in (("a", 2), ("b", 1), ("a", 3))]
        return taken, writer.appended("a"), writer.appended("b"), writer.appended("c")

    assert writing(failures, steps) == ([2, 1, 3], 5, 1, 0)


def test_a_record_that_cannot_be_sent_is_told_and_ends_the_producer(failures):
    async def steps(writer):
        taken = writer.append("log", [*records(2), *records(1, size=2_000), *records(1)])
        return taken, await failures.reason()

    taken, reason = writing(failures, steps, **{"message.max.bytes": 1_000})

    assert taken == 2
    assert "too large" in reason
