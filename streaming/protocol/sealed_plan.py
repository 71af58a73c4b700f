"""Sealed plans of redrives: which copies, where to, and the hash that seals them.

    filter --tables--> plan --sealed--> file --approved: id, user, reason--> redrive commands

A plan is JSON. Its id follows from its seal, so that a plan approved twice is one redrive.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from streaming.broker.redrive_letters import Letter, RedriveOptions
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.redrive_json import letter_fault, options_fault
from topology.errors import DlxError

FORMAT: Final = "dlx redrive plan 1"

LETTERS_PER_COMMAND: Final = 2_000
BYTES_PER_COMMAND: Final = 400_000
"""A command must fit into a Kafka record."""


class InvalidPlanError(DlxError):
    """A file is not a sealed plan, or was changed after it was sealed."""


class SealedPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan: exactly these letters move, if they are still where they were.

    Attributes:
        made_at: when it was made, ISO 8601.
        predicate: the filter that chose the letters, for people.
        tables_id: the id that Delta gave to the table `events`; no other job's has it.
        versions: the version of each table that was asked.
        letters: in the order in which they move.
        edited: hash -> the content of each version that a letter is edited to.
    """

    format: str = FORMAT
    vhost: str
    made_at: str
    predicate: dict[str, Any]
    tables_id: str
    versions: dict[str, int]
    options: RedriveOptions
    letters: tuple[Letter, ...]
    edited: dict[str, LetterContent] = {}
    seal: str = ""

    @property
    def id(self) -> str:
        """The id of the redrive that the plan becomes."""
        return f"r-{self.seal[:12]}"

    def sealed(self) -> "SealedPlan":
        """The same plan with its seal."""
        return msgspec.structs.replace(self, seal=self._hash())

    def is_sealed(self) -> bool:
        """Whether nothing was changed since it was sealed."""
        return self.seal == self._hash()

    def _hash(self) -> str:
        """The hash over everything but the seal."""
        bare = msgspec.structs.replace(self, seal="")
        return hashlib.sha256(msgspec.json.encode(bare, order="sorted")).hexdigest()

    def to_json(self) -> bytes:
        """The plan as the text of a file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def commands(
        self, reason: str, options: RedriveOptions | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the commands that approve the plan, without `op`.

        The last letter of a plan with edits has a command of its own: once it has come, the
        letters move, so every version must have been published before it.

        Args:
            options: how the letters move; None: as the plan says.
        """
        chosen = msgspec.to_builtins(self.options if options is None else options)
        common = {
            "id": self.id,
            "reason": reason,
            "seal": self.seal,
            "total": len(self.letters),
            "options": chosen,
        }
        for first, part in self._parts():
            yield {**common, "first": first, "letters": part}

    def _parts(self) -> Iterator[tuple[int, list[Any]]]:
        first, size = 0, 0
        part: list[Any] = []
        for index, letter in enumerate(self.letters):
            document = msgspec.to_builtins(letter)
            length = len(msgspec.json.encode(document))
            is_full = len(part) == LETTERS_PER_COMMAND or size + length > BYTES_PER_COMMAND
            is_last = bool(self.edited) and index == len(self.letters) - 1
            if part and (is_full or is_last):
                yield first, part
                first, size, part = index, 0, []
            part.append(document)
            size += length
        yield first, part


def read_plan(data: bytes, where: str) -> SealedPlan:
    """Read a sealed plan.

    Args:
        where: the name of the file, for errors.

    Raises:
        InvalidPlanError: it is not one, or was changed.
    """
    try:
        plan = msgspec.json.decode(data, type=SealedPlan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPlanError(f"{where}: is not a sealed plan: {error}") from None
    if plan.format != FORMAT:
        raise InvalidPlanError(f"{where}: format is {plan.format!r}, this version reads {FORMAT!r}")
    fault = options_fault(plan.options)
    for index, letter in enumerate(plan.letters):
        fault = fault or (
            f"letters[{index}]: {letter_fault(letter)}" if letter_fault(letter) else ""
        )
    wanted = {letter.edit.version for letter in plan.letters if letter.edit is not None}
    if not fault and wanted != {content.hash for content in plan.edited.values()} | {*plan.edited}:
        fault = "edited: the versions of the letters and their contents differ"
    if fault:
        raise InvalidPlanError(f"{where}: {fault}")
    if not plan.is_sealed():
        raise InvalidPlanError(
            f"{where}: was changed after it was sealed: make a new plan with "
            "`dlx dead-letters redrive`"
        )
    return plan
