"""What a reader of an input does when Kafka has no record any more where it reads."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.broker.state.store import MemoryStore
from streaming.protocol.copied_records import Source
from streaming.sequencer import input_reader
from streaming.sequencer.copied_positions import CopiedPositions
from streaming.sequencer.input_place import InputChangedError
from streaming.sequencer.input_reader import InputReader

LOST = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - how the library names librdkafka's codes


class Record:
    """A record, or an error, of the input `in`."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset = offset
        self._code = code

    def error(self) -> Any:
        """What librdkafka says instead of a record."""
        code = self._code
        return None if code is None else SimpleNamespace(code=lambda: code)

    def topic(self) -> str:
        """Where it is."""
        return "in"

    def partition(self) -> int:
        """Where it is."""
        return 0

    def offset(self) -> int:
        """Where it is."""
        return self._offset

    def headers(self) -> None:
        """It has none."""

    def key(self) -> None:
        """It has none."""

    def value(self) -> bytes:
        """Its value."""
        return b"x"

    def timestamp(self) -> tuple[int, int]:
        """Its time."""
        return 1, 0


class Input:
    """An input of one partition, as a consumer and an admin client see it.

    Attributes:
        first, end: what Kafka has; it may lose records at both ends.
    """

    def __init__(self) -> None:
        self.first, self.end = 0, 10
        self.position = 0

    def describe_topics(self, _topics: Any, request_timeout: float) -> Any:
        """Its id."""
        assert request_timeout
        described = SimpleNamespace(topic_id="id", partitions=[0])
        return {"in": SimpleNamespace(result=lambda: described)}

    def get_watermark_offsets(self, _place: Any, timeout: float) -> tuple[int, int]:
        """What it has."""
        assert timeout
        return self.first, self.end

    def committed(self, places: Any, timeout: float) -> Any:
        """Nobody has committed anything."""
        assert timeout
        return places

    def assign(self, places: Any) -> None:
        """Read from there on."""
        [place] = places
        self.position = place.offset

    def poll(self, _timeout_s: float) -> Record | None:
        """Read a record."""
        if not self.first <= self.position <= self.end:
            return Record(self.position, LOST)
        if self.position == self.end:
            return None
        self.position += 1
        return Record(self.position - 1)

    def consume(self, _most: int, _timeout_s: float) -> list[Record]:
        """Read no more than one."""
        return []

    def close(self) -> None:
        """Disconnect."""


def a_reader(monkeypatch: pytest.MonkeyPatch, topic: Input, **options: Any) -> InputReader:
    def consumer(settings: dict[str, Any]) -> Input:
        assert settings["auto.offset.reset"] == "error"
        return topic

    monkeypatch.setattr(input_reader, "Consumer", consumer)
    positions = CopiedPositions(MemoryStore())
    positions.note(Source("in", 0, 1, "id"))
    return InputReader({}, topic, "log", ["in"], positions, **options)


@pytest.mark.parametrize("code", ["UNKNOWN_TOPIC_OR_PART", "TOPIC_AUTHORIZATION_FAILED"])
def test_an_input_that_is_not_there_yet_is_looked_for_quietly(monkeypatch, caplog, code):
    topic = Input()
    reader = a_reader(monkeypatch, topic)

    def unknown() -> Any:
        raise KafkaException(KafkaError(getattr(KafkaError, code)))

    def described(_topics: Any, request_timeout: float) -> Any:
        assert request_timeout
        return {"in": SimpleNamespace(result=unknown)}

    monkeypatch.setattr(topic, "describe_topics", described)
    topic.position = topic.end

    assert reader.read(0.0) == []
    assert not caplog.records


def offsets(reader: InputReader) -> list[int]:
    return [record.source.offset for record in reader.read(0.0)]


def test_an_input_that_loses_its_end_meanwhile_is_not_copied_again(monkeypatch):
    topic = Input()
    reader = a_reader(monkeypatch, topic)
    assert [offsets(reader) for _ in range(4)] == [[2], [3], [4], [5]]
    topic.end = 5

    assert offsets(reader) == []
    with pytest.raises(InputChangedError, match="ends at offset 5, and was copied into log up"):
        reader.read(0.0)


def test_why_nothing_is_copied_is_said_once(monkeypatch, caplog):
    topic = Input()
    reader = a_reader(monkeypatch, topic)

    def refused(_place: Any, timeout: float) -> tuple[int, int]:
        assert timeout
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    with monkeypatch.context() as patch:
        patch.setattr(topic, "get_watermark_offsets", refused)
        for _ in range(3):
            reader.read(0.0)
    for _ in range(3):
        reader.read(0.0)

    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("nothing is copied into log now, since inputs (in) cannot be read")
    assert second == "inputs are copied into log again"


def test_with_accept_loss_it_goes_on_where_the_input_ends(monkeypatch):
    topic = Input()
    reader = a_reader(monkeypatch, topic, accepts_loss=True)
    assert [offsets(reader) for _ in range(4)] == [[2], [3], [4], [5]]
    topic.end = 5

    assert [offsets(reader) for _ in range(2)] == [[], []]
    topic.end = 7

    assert [offsets(reader) for _ in range(3)] == [[5], [6], []]


def test_records_that_are_gone_before_they_were_read_are_named(monkeypatch, caplog):
    topic = Input()
    reader = a_reader(monkeypatch, topic)
    assert offsets(reader) == [2]
    topic.first = 8

    assert [offsets(reader) for _ in range(3)] == [[], [8], [9]]
    assert "records of in, partition 0, were to be copied from offset 3 on" in caplog.text
