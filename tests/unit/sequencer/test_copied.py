"""Are records of inputs in the log once, wherever the front that copies them ends?"""

import asyncio
from typing import Any

import msgspec
import pytest

from streaming.amqp.entries import Ask, Publish
from streaming.amqp.outgoing import Confirms
from streaming.amqp.stored import Stored
from streaming.broker import commands
from streaming.broker.events import Actor
from streaming.broker.message import Publication
from streaming.broker.redrive_letters import Letter, StoredLetter, Target
from streaming.config.inputs import InputSettings
from streaming.protocol.copied_records import Source
from streaming.sequencer import copying
from streaming.sequencer.bodies import stored_from
from streaming.sequencer.copying import Copying
from streaming.sequencer.input_records import InputRecord, InputRecords
from streaming.sequencer.letter_contents import LetterContents
from streaming.sequencer.log_reader import LogUnreadableError
from streaming.sequencer.log_vhost import Role
from tests.log_port import LogPort
from topology.declarations import Queue

ACTOR = Actor("guest", "kafka:c")


def a_leader(port, entries=None):
    vhost = port.open(entries)
    vhost.acknowledged(port.write())
    assert vhost.role is Role.LEADING
    return vhost


def declare(vhost, name, source):
    command = commands.DeclareQueue(queue=Queue(name), channel="kafka:c")
    vhost.submit(Ask(ACTOR, command, source))


def publish(vhost, source):
    stored = Stored(b"\0\0", b"body")
    vhost.submit(Publish(ACTOR, Publication("", "q"), stored, 0, 0, Confirms(), source))


def copied(vhost):
    return [vhost.copied.next_of("in", partition) for partition in (0, 1)]


def test_the_log_says_what_was_copied():
    port = LogPort()
    vhost = a_leader(port)

    declare(vhost, "q", Source("in", 0, 4))
    publish(vhost, Source("in", 1, 6))
    port.run()
    assert copied(vhost) == [None, None]
    port.acknowledge(vhost)

    assert copied(vhost) == [5, 7]
    assert vhost.ready_in("q") == 1
    assert copied(port.open(leads=False)) == [5, 7]
    publish(vhost, Source("in", 1, 9))
    port.acknowledge(vhost)
    entries = vhost.snapshot().entries
    declare(vhost, "other", Source("in", 0, 8))
    port.acknowledge(vhost)
    assert copied(port.open(entries, leads=False)) == [9, 10]


def test_what_a_front_copies_that_was_replaced_is_copied_again():
    port = LogPort()
    first = a_leader(port)
    declare(first, "q", Source("in", 0, 4))
    port.acknowledge(first)
    publish(first, Source("in", 0, 5))
    port.run()
    [(_vhost, late)] = port.sent
    port.sent.clear()

    second = a_leader(port)
    port.add(late)
    third = port.open(leads=False)

    assert copied(second) == [5, None]
    assert copied(third) == [5, None]
    assert third.ready_in("q") == 0


def test_a_mark_says_how_far_an_input_was_read():
    port = LogPort()
    vhost = a_leader(port)

    vhost.mark(Source("in", 1, 99))
    port.acknowledge(vhost)

    assert copied(vhost) == [None, 100]
    assert copied(port.open(leads=False)) == [None, 100]


def test_a_topic_that_was_made_again_begins_anew_in_the_log():
    port = LogPort()
    vhost = a_leader(port)
    for partition in (0, 1):
        vhost.mark(Source("in", partition, 99, "before"))
    port.acknowledge(vhost)
    assert copied(vhost) == [100, 100]

    vhost.mark(Source("in", 0, 4, "now"))
    port.acknowledge(vhost)

    entries = vhost.snapshot().entries
    for other in (vhost, port.open(leads=False), port.open(entries, leads=False)):
        assert copied(other) == [5, None]
        assert other.copied.id_of("in") == "now"
        assert other.copied.id_of("another") is None


def test_a_state_of_an_earlier_version_knows_no_topics():
    port = LogPort()
    vhost = a_leader(port)
    vhost.mark(Source("in", 0, 4))
    port.acknowledge(vhost)
    entries = vhost.snapshot().entries
    del entries["copied_topics"]

    found = port.open(entries, leads=False).copied

    assert (found.next_of("in", 0), found.id_of("in")) == (5, None)


class Input:
    """An input with these records, which are read two by two."""

    def __init__(self, records: list[InputRecord]) -> None:
        self.records = records
        self.moved: list[Source] = []
        self.ends: list[dict[tuple[str, int], int]] = []
        self.is_closed = False

    def read(self, _timeout_s: float) -> list[InputRecord]:
        found, self.records = self.records[:2], self.records[2:]
        return found

    def take_moved(self) -> list[Source]:
        moved, self.moved = self.moved, []
        return moved

    def copied(self, ends: dict[tuple[str, int], int]) -> None:
        self.ends.append(ends)

    def close(self) -> None:
        self.is_closed = True


class Log(LetterContents):
    """Reads what the log of a port has."""

    def __init__(self, port: LogPort, unanswered: int = 0) -> None:
        self.port = port
        self.unanswered = unanswered

    def read(self, offset: int) -> Stored | None:
        if self.unanswered:
            self.unanswered -= 1
            raise LogUnreadableError("no answer")
        for raw in self.port.records[offset : offset + 1]:
            if raw.content is not None:
                return stored_from(raw.content, raw.value or b"")
        return None

    def close(self) -> None: ...


def a_record(offset: int, vhost: bytes = b"/") -> InputRecord:
    value = b'{"queue": {"name": "q%d"}}' % offset
    headers = (("dlx-op", b"declare_queue"), ("dlx-vhost", vhost))
    return InputRecord(Source("in", 0, offset), 1, None, value, headers)


@pytest.mark.parametrize("waits", [False, True])
def test_records_are_copied_in_order_and_kafka_knows_how_far(monkeypatch, waits):
    monkeypatch.setattr(copying, "MAX_UNMARKED", 3)
    port = LogPort()
    vhost = a_leader(port)
    others = [a_record(offset, b"other") for offset in (5, 6, 7)]
    source: Any = Input([a_record(3), a_record(4), *others])
    source.moved = [Source("in", 1, 41, "now")]
    records = InputRecords(
        "/", [InputSettings(topic="in", source="commands")], ["/"], 100, 100, 1_000
    )
    waited = iter([waits, waits, False])
    copy = Copying(vhost, source, records, Log(port), lambda: next(waited, False))

    async def run() -> None:
        task = asyncio.get_running_loop().create_task(copy.run())
        while len(source.ends) < 3:
            await asyncio.sleep(0.001)
            port.acknowledge(vhost)
        vhost.fail("it ends")
        await task

    asyncio.run(run())

    assert source.ends == [{("in", 0): 5}, {("in", 0): 7}, {("in", 0): 8}]
    assert sorted(vhost.shard.vhost.queues) == ["q3", "q4"]
    assert copied(vhost) == [8, 42]
    assert vhost.copied.id_of("in") == "now"
    assert source.is_closed


def test_a_front_that_is_replaced_says_nothing_of_what_it_has_not_copied():
    port = LogPort()
    vhost = a_leader(port)
    source: Any = Input([a_record(3)])
    records = InputRecords(
        "/", [InputSettings(topic="in", source="commands")], ["/"], 100, 100, 1_000
    )
    copy = Copying(vhost, source, records, Log(port), lambda: False)

    async def run() -> None:
        task = asyncio.get_running_loop().create_task(copy.run())
        while not port.sent:
            await asyncio.sleep(0.001)
            port.run()
        vhost.fail("it ends")
        await task

    asyncio.run(run())

    assert source.ends == []


def a_redrive(*letters: Letter, first: int = 0) -> InputRecord:
    members = {
        "id": "r-1",
        "reason": "why",
        "seal": "s",
        "total": first + len(letters),
        "first": first,
        "letters": msgspec.to_builtins(letters),
    }
    headers = (("dlx-op", b"redrive"), ("dlx-vhost", b"/"))
    return InputRecord(Source("in", 0, 3), 1, None, msgspec.json.encode(members), headers)


def a_letter(copy_id: int, offset: int) -> Letter:
    stored = StoredLetter((4, 0, offset), 4, 0, '{"n":1}', ())
    return Letter(0, copy_id, "q", Target("q", "", ("q",)), 0, stored)


def run_copying(vhost, port, *found, unanswered=0):
    source: Any = Input(list(found))
    inputs = [InputSettings(topic="in", source="commands")]
    records = InputRecords("/", inputs, ["/"], 10_000, 100, 1 << 20)
    copy = Copying(vhost, source, records, Log(port, unanswered), lambda: False)

    async def run() -> None:
        task = asyncio.get_running_loop().create_task(copy.run())
        while not source.ends and not task.done():
            await asyncio.sleep(0.001)
            port.acknowledge(vhost)
        vhost.fail("it ends")
        await task

    asyncio.run(run())


def events_of(vhost):
    found = []
    vhost.watchers.append(lambda events: found.extend(events.rows()))
    return found


@pytest.mark.parametrize(("most", "unanswered"), [(0, 0), (1 << 20, 0), (0, 2)])
def test_letters_that_are_in_no_queue_get_a_new_message_with_their_content(
    monkeypatch, most, unanswered
):
    monkeypatch.setattr(copying, "MAX_CONTENT_BYTES", most)
    port = LogPort()
    vhost = a_leader(port)
    declare(vhost, "q", None)
    publish(vhost, None)
    publish(vhost, None)
    port.acknowledge(vhost)
    gone = [raw.offset for raw in port.records if raw.content is not None]
    vhost.submit(Ask(ACTOR, commands.Purge(queue="q", channel="kafka:c")))
    port.acknowledge(vhost)
    rows = events_of(vhost)

    letters = [a_letter(1, gone[0]), a_letter(2, gone[1]), a_letter(3, gone[1]), a_letter(4, 999)]
    run_copying(vhost, port, a_redrive(*letters), unanswered=unanswered)

    follower = port.open(leads=False)
    assert [row.kind.name for row in rows] == [
        *("EDITED", "EDITED", "REDRIVE"),
        *("SKIPPED", *["REPUBLISHED", "ENQUEUED"] * 3),
        "REDRIVE",
    ]
    assert next(row.detail["reason"] for row in rows if row.kind.name == "SKIPPED") == "not_stored"
    edits = [row.detail["edit"] for row in rows if row.kind.name == "REPUBLISHED"]
    new = [raw.offset for raw in port.records if raw.content is not None][2:]
    assert [edit["message"][2] for edit in edits] == [new[0], new[1], new[1]]
    assert all(edit["original"] == edit["version"] for edit in edits)
    assert [raw.value for raw in port.records if raw.offset in new] == [b"body"] * 2
    assert follower.ready_in("q") == 3
    assert copied(follower) == [4, None]
    entered = [row.copy.message for row in rows if row.kind.name == "ENQUEUED"]
    assert [(message.offset, message.size) for message in entered] == [
        *((new[0], 4), (new[1], 4)),
        (new[1], 4),
    ]


def test_contents_are_written_once_for_a_redrive_that_is_known():
    port = LogPort()
    vhost = a_leader(port)
    declare(vhost, "q", None)
    publish(vhost, None)
    port.acknowledge(vhost)
    [gone] = [raw.offset for raw in port.records if raw.content is not None]
    vhost.submit(Ask(ACTOR, commands.Purge(queue="q", channel="kafka:c")))
    port.acknowledge(vhost)

    run_copying(vhost, port, a_redrive(a_letter(1, gone)))
    second = a_leader(port)
    written = [raw.offset for raw in port.records if raw.content is not None]
    run_copying(second, port, a_redrive(a_letter(1, gone)))

    assert [raw.offset for raw in port.records if raw.content is not None] == written
    assert second.ready_in("q") == 1
