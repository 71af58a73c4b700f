"""What the front and the process that reads the tables say to each other."""

from typing import Final, Literal

import msgspec

NO_TABLES: Final = "no_tables"
"""The error of what needs the tables of a job."""

Access = tuple[str, str, str]
"""What a user may configure, write and read in a vhost."""


Role = Literal["viewer", "operator", "editor"]
"""As in the console: each may do what those before it may."""


class Settings(msgspec.Struct, frozen=True):
    """Where the tables are."""

    root: str
    options: dict[str, str]


class Ask(msgspec.Struct, frozen=True):
    """A question of a user.

    Attributes:
        name: of the question.
        values: parameters, and the variable parts of the path.
        body: as it was sent.
        access: what counts now in vhosts that the front serves, whatever the tables say; None:
            nothing.
    """

    name: str
    user: str
    role: Role
    administrator: bool
    values: dict[str, str]
    body: bytes = b""
    access: dict[str, Access | None] = {}


class Told(msgspec.Struct, frozen=True):
    """The answer: a document in JSON, or why there is none.

    Attributes:
        parts: several documents instead of one.
        is_last: the process ends after it.
    """

    status: int
    error: str = ""
    reason: str = ""
    document: bytes = b""
    parts: list[bytes] = []
    is_last: bool = False
