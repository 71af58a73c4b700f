"""The state of a resident message does not grow with what the broker does not look at."""

from streaming.broker.commands import DeclareQueue
from streaming.broker.config import ShardConfig
from streaming.broker.events import CLOCK
from streaming.broker.message import Message, publication_of
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from topology.declarations import Queue


def test_a_resident_message_takes_at_most_64_bytes_whatever_its_headers():
    store = MemoryStore()
    shard = Shard(ShardConfig(), store)
    queue = Queue("work", arguments={"x-message-ttl": 60_000})
    shard.command(0, DeclareQueue(queue=queue), CLOCK)
    count, start_ms = 5_000, 1_790_000_000_000
    headers = [{"CC": [], "trace": f"{number:032x}"} for number in range(count)]
    for number in range(count):
        message = Message(3, 11, (1 << 32) + number, (1 << 44) + 9, number, 1_000)
        properties = {"message_id": f"{number:032x}", "priority": 1}
        publication = publication_of("", "work", properties, headers[number])
        shard.publish(start_ms + number, message, publication, 0, CLOCK)
    shard.finish()

    assert sum(map(len, store.values.values())) / count <= 64
