"""Where a log goes on on other terms than those of a job."""

from typing import Any

import pytest

from streaming.config import JobConfig
from streaming.config.shards import shard_config, terms_of
from streaming.config.vhosts import VhostSettings
from streaming.pipeline.topics.other_epochs import first_other_epochs
from streaming.protocol.log_records import Epoch
from streaming.sequencer import leader_heartbeats as leaders_module
from streaming.sequencer.leader_heartbeats import Beat, HeardLeaders
from streaming.sequencer.log_reader import LogUnreadableError, RawRecord
from streaming.sequencer.records import RecordWriter, epoch_record

LOG = "dlx.log.shop"
IDS = {LOG: "cluster/topic"}
CONFIG = JobConfig(vhosts={"shop": VhostSettings(sequenced=True)})
TERMS = terms_of(shard_config(CONFIG, "shop"))
OWN = Epoch("a", TERMS.core_version, TERMS.rules)
NEXT_CORE = Epoch("b", TERMS.core_version + 1, TERMS.rules)
OTHER_RULES = Epoch("c", TERMS.core_version, "others")


class Leaders(HeardLeaders):
    """Heartbeats that do not go through Kafka."""

    is_current = True

    def close(self):
        """End listening."""


class Reader:
    """Reads a log in memory."""

    def __init__(self, records):
        self._records = records
        self._position = 0
        self.topic = LOG

    def seek(self, offset):
        self._position = offset

    def read(self, _timeout_s):
        if not self._records:
            raise LogUnreadableError("the log is gone")
        found = self._records[self._position : self._position + 2]
        self._position += len(found)
        return found

    def close(self):
        pass


def raw(offset, record):
    return RawRecord(offset, 0, record.headers[0][1], None, record.value)


def a_log(*epochs):
    """A log in which each epoch has three records, and one of somebody else is between them."""
    records: list[RawRecord] = []
    for epoch in epochs:
        begin = len(records)
        records.append(raw(begin, epoch_record(0, epoch)))
        records += [raw(begin + 1 + more, RecordWriter(begin).tick(0)) for more in range(2)]
        records.append(RawRecord(begin + 3, 0, None, None, b"somebody"))
    return records


def found_in(records, leaders, begins):
    def listen(_properties, _topic) -> Any:
        return leaders

    def open_log(_properties, _topic) -> Any:
        return Reader(records)

    return first_other_epochs(CONFIG, {}, begins, IDS, listen=listen, open_log=open_log)


@pytest.mark.parametrize(
    ("epochs", "begin", "offset"),
    [
        ([OWN, OWN], 0, None),
        ([OWN, NEXT_CORE], 0, 4),
        ([OWN, OTHER_RULES], 3, 4),
        ([OWN, NEXT_CORE, NEXT_CORE], 1, 4),
        ([OWN, NEXT_CORE], 4, 4),
        ([NEXT_CORE, OWN], 4, None),
        ([OWN, NEXT_CORE], 5, None),
    ],
    ids=[
        *("of its terms", "another core", "other settings", "two", "at it", "of old", "behind it"),
    ],
)
def test_the_first_epoch_of_other_terms_is_found(epochs, begin, offset):
    records = a_log(*epochs)
    leaders = Leaders()
    leaders.note("shop", Beat("b", 4 * (len(epochs) - 1), topic=LOG, topic_id="topic"), 0.0)

    found = found_in(records, leaders, {LOG: {"0": begin}})

    assert {log: error.offset for log, error in found.items()} == (
        {} if offset is None else {LOG: offset}
    )


def test_what_is_not_known_bounds_nothing(monkeypatch, caplog):
    leaders = Leaders()
    assert found_in([], leaders, {}) == {}, "no front was heard"

    leaders.note("shop", Beat("b", 4, topic=LOG, topic_id="topic"), 0.0)
    assert found_in([], leaders, {}) == {}

    monkeypatch.setattr(leaders_module, "_ANSWER_S", 0.1)
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    assert first_other_epochs(CONFIG, nobody, {}, IDS) == {}

    said = "whether a log goes on on other terms is unknown: "
    gone, silent = (text.removeprefix(said) for text in caplog.messages)
    assert gone == "the log is gone"
    assert silent.startswith("the heartbeats of fronts in dlx.leaders cannot be read")
