"""The broker's log files, which explain an unexpected end."""

import re
from pathlib import Path

SHOWN_LINES = 4
READ_BYTES = 1_000_000
_FAULT = re.compile(r" (ERROR|FATAL) |^Exception in|^Caused by|^Error")


class BrokerLog:
    """The logs of one broker.

    Attributes:
        file: Kafka's log; appended to, and rolled by size.
        output: output of the JVM; overwritten at each start.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "kafka.log"
        self.output = directory / "kafka.out"
        self._begin_bytes = 0

    def begin(self) -> None:
        """Remember where the log of this start begins."""
        self._begin_bytes = self.file.stat().st_size if self.file.exists() else 0

    def since_begin(self) -> str:
        """The log and output since this start, or its last part."""
        return self._tail(self.file, self._begin_bytes) + self._tail(self.output, 0)

    def says_port_taken(self) -> bool:
        """Whether the broker ended because a port was in use."""
        return "Address already in use" in self.since_begin()

    def explain_end(self, status: int, directory: Path) -> str:
        """Why the broker ended with this exit status during its start, and what to do."""
        said = self.since_begin()
        if self.says_port_taken():
            remedy = "Its port is in use by another program: stop that program or choose a port."
        elif re.search("OutOfMemoryError|Could not reserve enough space|insufficient memory", said):
            remedy = "It has too little memory: increase heap_mb, or free some memory."
        elif "No space left on device" in said:
            remedy = f"The disk of {directory} is full: free some space."
        else:
            remedy = (
                f"If its data in {directory} is damaged, move the directory away to start with an "
                "empty Kafka, or choose another one."
            )
        lines = said.splitlines()
        faults = [line for line in lines if _FAULT.search(line)] or lines[-2:]
        shown = "\n".join(f"  {line[:300]}" for line in faults[:SHOWN_LINES])
        return (
            f"Kafka ended during its start (exit status {status}).\n{shown}\n{remedy} Its log is "
            f"{self.file}, and the output of its JVM is {self.output}."
        )

    @staticmethod
    def _tail(path: Path, begin_bytes: int) -> str:
        try:
            with path.open("rb") as opened:
                size = opened.seek(0, 2)
                # Smaller than before: the log was rolled, so all of it is new.
                begin = begin_bytes if begin_bytes <= size else 0
                opened.seek(max(begin, size - READ_BYTES))
                return opened.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
