"""State that an earlier version wrote, and how the broker goes on with it.

`state_version_1.json` holds, for both compats: the store after the steps below up to the end of a
batch, and what the program that wrote it did and delivered in the rest of the steps.
"""

import base64
import json
from pathlib import Path

import pytest

from streaming.broker.message import PublishedHeaders
from tests.builders import Broker
from topology.values import table_to_json

RECORDED = json.loads((Path(__file__).parent / "state_version_1.json").read_text())
QUEUES = ("work", "keyed", "copy", "hidden", "end", "red", "retry")

PUBLISHED = [
    {"CC": ["copy", 1], "BCC": ["hidden"], "a": 1},
    {
        "x-death": [{"queue": "work", "reason": "rejected", "count": 4, "mine": "kept"}, "odd"],
        "b": 2,
    },
    {},
    None,
    {"x-death": [{"queue": "work", "reason": "expired", "count": 2}, "odd"]},
    {"x-death": "odd", "CC": []},
    {"CC": ["work"], "colour": "red"},
]
"""The headers by offset. 0, 1 (of `work`) and 6 (of `keyed`) were got; 1 and 6 were rejected."""


@pytest.mark.parametrize("compat", ["3.10", "4.0"])
def test_messages_in_state_of_version_1_die_and_are_delivered_as_before(compat):
    recorded = RECORDED[compat]
    broker = Broker(compat=compat)
    broker.bodies = ["m1", "m2", "m3", "m4", "m6", "m7", "m5"]
    broker.headers = [PublishedHeaders(headers) for headers in PUBLISHED]
    stored = {key: base64.b64decode(value) for key, value in recorded["store"].items()}
    assert {value[0] for value in stored.values()} == {1}
    broker.store.values = stored
    broker.shard = broker.reopened()

    broker.reject("g/0")
    broker.at(200)
    broker.at(70_000)

    delivered = []
    for queue in QUEUES:
        for out in broker.get(queue, count=20):
            envelope = out.copy.envelope
            headers = broker.delivered_headers(out.copy)
            keys = list(envelope.routing_keys)
            table = None if headers is None else table_to_json(headers)
            delivered.append([queue, out.copy.message.offset, envelope.exchange, keys, table])
    # that version had another order of events at one instant (R-QUEUE-7)
    assert sorted(broker.story()) == sorted(recorded["sentences"])
    assert delivered == recorded["delivered"]
