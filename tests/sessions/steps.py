"""What a session consists of: steps of two connections.

Steps name no delivery tag, no generated name, and assume no state: `settle` means "some unacked
delivery of this channel", and the player opens what is closed. So a session stays meaningful
when steps are taken out of it, and whatever a broker answers.
"""

from dataclasses import dataclass
from typing import Any, Final

QUEUES: Final = ("q0", "q1", "q2", "q3")
EXCHANGES: Final = ("e0", "e1", "e2")
TYPES: Final = ("direct", "fanout", "topic", "headers")
KEYS: Final = ("a", "a.b", "a.b.c", "b", "")
PATTERNS: Final = ("a", "a.b", "#", "a.*", "*.b.#", "b", "")
LENGTH: Final = 40
CHANNELS: Final = (1, 2)
CONNECTIONS: Final = (0, 1)

SHORT_MS: Final = 300
"""A time after which something ends: a wait sees the end of four in a row."""

LONG_MS: Final = 2600
"""A time that the second of two waits sees the end of."""

WAIT_S: Final = 1.6
STEPS_BETWEEN_WAITS: Final = 8
"""So few that what they take does not count beside the times above."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a client does.

    Attributes:
        op: the name of a function of the player.
        arguments: of that function.
    """

    connection: int
    channel: int
    op: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items() if value)
        return f"{self.connection}/{self.channel} {self.op}({shown})"


WAITING: Final = (CONNECTIONS[0], CHANNELS[0])
"""Where a step is noted that no client takes."""
