"""Messages that are not in memory are read from the log, whatever else is in it."""

from typing import Any

from streaming.sequencer.bodies import BodyReader
from streaming.sequencer.log_reader import RawRecord


class Log:
    """A reader of a log that is given."""

    def __init__(self, records: list[RawRecord]) -> None:
        self._records = records
        self._at = 0

    def seek(self, offset: int) -> None:
        self._at = offset

    def read(self, _timeout_s: float, most: int) -> list[RawRecord]:
        found = self._records[self._at : self._at + most]
        self._at += len(found)
        return found

    def close(self) -> None:
        pass


def test_damaged_records_of_other_programs_are_passed():
    contents = (b"\0\0", None, b"\0", b"\0\1", b"\x80\0\x05a", b"\0\0")
    log: Any = Log([RawRecord(n, 1, b"", one, b"%d" % n) for n, one in enumerate(contents)])
    reader = BodyReader(log)

    found = reader.fetch(0).result(60)

    assert [(offset, stored.body) for offset, stored in found] == [(0, b"0"), (5, b"5")]
    reader.close()
