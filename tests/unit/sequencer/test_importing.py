"""Are definitions imported once into a log, whole, whenever a front is killed?"""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from streaming.amqp.entries import Ask
from streaming.broker import commands
from streaming.broker.commands import ImportDefinitions
from streaming.broker.events import Actor
from streaming.protocol.copied_records import Source
from streaming.protocol.log_records import LogKind, read_command, read_header
from streaming.sequencer.importing import (
    PLACE,
    DefinitionsRefusedError,
    Import,
    import_definitions,
    is_due,
)
from streaming.sequencer.log_vhost import LogVhost
from tests.log_port import LogPort

CLIENT = Actor("guest", "c1")


def definitions(queues: int, **arguments: Any) -> dict[str, Any]:
    """A document with some queues, each bound to amq.fanout."""
    names = [f"q{number}" for number in range(queues)]
    return {
        "vhosts": [{"name": "/"}],
        "queues": [
            {"name": name, "vhost": "/", "durable": True, "arguments": arguments} for name in names
        ],
        "bindings": [
            {
                "source": "amq.fanout",
                "vhost": "/",
                "destination": name,
                "destination_type": "queue",
                "routing_key": "",
            }
            for name in names
        ],
    }


def a_leader(port: LogPort, max_body_bytes: int = 2_000) -> LogVhost:
    vhost = port.open()
    vhost.acknowledged(port.write())
    vhost.max_body_bytes = max_body_bytes
    return vhost


def import_into(port: LogPort, vhost: LogVhost, given: Import, most: int = 1 << 30) -> None:
    """Import, until so many records were written: then the front is killed."""

    async def run() -> None:
        task = asyncio.ensure_future(import_definitions(given, vhost))
        while not task.done():
            await asyncio.sleep(0)
            port.run()
            if len(port.records) >= most:
                port.sent.clear()
                task.cancel()
                break
            port.acknowledge(vhost)
        if not task.cancelled() and task.done():
            task.result()

    asyncio.run(run())
    if most == 1 << 30:
        port.acknowledge(vhost)


def imports(port: LogPort) -> list[bytes]:
    """The records of imports in a log."""
    return [
        raw.value or b""
        for raw in port.records
        if read_header(raw.header).kind == LogKind.COMMAND
        and isinstance(read_command(raw.value or b""), ImportDefinitions)
    ]


def test_a_large_document_is_imported_in_records_that_kafka_takes():
    port, given = LogPort(), Import(definitions(100), only_first=True)
    vhost = a_leader(port)
    assert len(msgspec.json.encode(given.definitions)) > 10 * 1_000

    import_into(port, vhost, given)

    assert set(vhost.shard.vhost.queues) == {f"q{number}" for number in range(100)}
    assert len(imports(port)) > 10
    assert max(map(len, imports(port))) <= 1_000
    follower = port.open(leads=False)
    assert follower.fold.in_short() == vhost.fold.in_short()


def test_the_import_of_a_front_that_is_replaced_ends():
    port, given = LogPort(), Import(definitions(100), only_first=True)
    vhost = a_leader(port)

    async def run() -> None:
        task = asyncio.ensure_future(import_definitions(given, vhost))
        await asyncio.sleep(0)
        port.run()
        vhost.fail("another front leads it")
        await asyncio.wait_for(task, 30)

    asyncio.run(run())

    assert not vhost.copied.next_of(PLACE, 1), "it is not complete"


@pytest.mark.parametrize("records", [1, 2, 5], ids=["epoch", "a portion", "some portions"])
def test_a_front_completes_the_import_of_one_that_was_killed(records):
    port, given = LogPort(), Import(definitions(100), only_first=True)
    import_into(port, a_leader(port), given, most=records)
    assert len(port.records) == records

    heir = a_leader(port)
    assert is_due(given, heir)
    import_into(port, heir, given)

    assert len(heir.shard.vhost.queues) == 100
    assert not is_due(given, a_leader(port))


def test_what_was_deleted_since_the_import_does_not_come_back():
    port, given = LogPort(), Import(definitions(2), only_first=True)
    vhost = a_leader(port)
    import_into(port, vhost, given)
    vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
    vhost.submit(Ask(CLIENT, commands.DeleteQueue(queue="q0", channel="c1")))
    port.acknowledge(vhost)

    assert not is_due(given, a_leader(port))
    assert not is_due(given, port.open(_snapshot_of(vhost), leads=False))


def _snapshot_of(vhost: LogVhost) -> dict[str, bytes]:
    taken = vhost.snapshot()
    assert taken is not None
    return taken.entries


def test_a_log_in_which_clients_were_already_is_not_imported_into():
    port, given = LogPort(), Import(definitions(2), only_first=True)
    vhost = a_leader(port)
    vhost.submit(Ask(CLIENT, commands.OpenChannel(channel="c1", connection="n1")))
    vhost.submit(Ask(CLIENT, commands.CloseChannel(channel="c1")))
    port.acknowledge(vhost)

    assert not is_due(given, a_leader(port))
    assert is_due(given._replace(only_first=False), a_leader(port)), "--definitions: always"


def test_a_takeover_does_not_undo_what_was_changed_since_the_import():
    port, given = LogPort(), Import(definitions(2), only_first=False)
    assert is_due(given, a_leader(port), standby=True), "nothing was imported"
    vhost = a_leader(port)
    import_into(port, vhost, given)

    for heir in (a_leader(port), port.open(_snapshot_of(vhost), leads=False)):
        assert not is_due(given, heir, standby=True)
        assert is_due(given, heir), "it leads from its start on"
        assert is_due(Import(definitions(3), only_first=False), heir, standby=True)


@pytest.mark.parametrize("records", [1, 2, 5], ids=["the mark", "a portion", "some portions"])
def test_a_standby_completes_the_import_of_a_document_that_was_imported_before(records):
    port, given = LogPort(), Import(definitions(100), only_first=False)
    import_into(port, a_leader(port), given)
    again = a_leader(port)
    import_into(port, again, given, most=len(port.records) + records)

    heir = a_leader(port)
    assert is_due(given, heir, standby=True)
    import_into(port, heir, given)

    assert not is_due(given, a_leader(port), standby=True)
    only_first = given._replace(only_first=True)
    assert not is_due(only_first, a_leader(port)), "the log does not begin here"


def test_an_item_that_no_record_has_room_for_is_refused_before_anything_is_written():
    chances = random.Random(1)  # nothing makes it smaller
    numbers = [chances.getrandbits(62) for _ in range(1_000)]
    port, given = LogPort(), Import(definitions(1, x=numbers), only_first=True)
    vhost = a_leader(port)

    with pytest.raises(DefinitionsRefusedError, match="a record of the log may have 2000"):
        import_into(port, vhost, given)

    assert imports(port) == []


def test_an_import_that_the_broker_refuses_is_tried_again_by_the_next_front():
    port, given = LogPort(), Import(definitions(1), only_first=True)
    given.definitions["bindings"][0]["destination"] = "gone"

    with pytest.raises(DefinitionsRefusedError, match=r"vhost /: definitions: .*gone"):
        import_into(port, a_leader(port), given)

    assert is_due(given, a_leader(port))


def test_a_source_of_another_name_says_nothing_of_imports():
    port, given = LogPort(), Import(definitions(1), only_first=True)
    vhost = a_leader(port)
    vhost.mark(Source("definitions", 1, 0))
    port.acknowledge(vhost)

    assert is_due(given, a_leader(port))
