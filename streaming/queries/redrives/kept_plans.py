"""Sealed plans that are kept by their id, and what people want to see beside them.

    RedrivePlan --keep_plan--> r-25d3a7490719.json       the sealed plan: what the job reads
                               r-25d3a7490719.edits      what its edits change
                               r-25d3a7490719.forecast   what its letters were expected to do
                               r-25d3a7490719.risks      where they may die again

The console, the API and the command line keep plans alike, so that each can show and approve them.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from streaming.queries.redrives.edits import LetterEdit
from streaming.queries.redrives.plan import RedrivePlan
from streaming.queries.redrives.risks import Risk
from streaming.user_folders import EDITS, plans_folder

_FORECAST: Final = ".forecast"
_RISKS: Final = ".risks"
_PRIVATE: Final = 0o600
"""A plan may hold bodies."""


def keep_plan(found: RedrivePlan) -> None:
    """Write a sealed plan under its id, and beside it its edits, its forecast and its risks.

    Raises:
        OSError: the user's folder cannot be written.
    """
    plan, edits = found.sealed, found.edits
    folder = plans_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if edits:
        write_private(folder / f"{plan.id}{EDITS}", msgspec.json.encode(edits))
    expected: Counter[str] = Counter()
    for group in found.groups:
        expected.update(group.forecast)
    write_private(folder / f"{plan.id}{_FORECAST}", msgspec.json.encode(expected))
    if found.risks:
        write_private(folder / f"{plan.id}{_RISKS}", msgspec.json.encode(found.risks))
    write_private(folder / f"{plan.id}.json", plan.to_json())


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    file.touch(mode=_PRIVATE)
    file.write_bytes(content)


def kept_forecast(redrive_id: str) -> dict[str, int]:
    """What was expected of how many letters of a plan; empty if it was not made here."""
    try:
        data = (plans_folder() / f"{redrive_id}{_FORECAST}").read_bytes()
        return msgspec.json.decode(data, type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


def kept_risks(redrive_id: str) -> list[Risk]:
    """Where letters of a plan may die again, as it was then; empty if it was not made here."""
    try:
        data = (plans_folder() / f"{redrive_id}{_RISKS}").read_bytes()
        return msgspec.json.decode(data, type=list[Risk])
    except (OSError, msgspec.DecodeError):
        return []


def kept_edits(redrive_id: str) -> list[LetterEdit]:
    """What the edits of a plan change; empty if it has none, or was not made here."""
    try:
        data = (plans_folder() / f"{redrive_id}{EDITS}").read_bytes()
        return msgspec.json.decode(data, type=list[LetterEdit])
    except (OSError, msgspec.DecodeError):
        return []


def remove_plan(redrive_id: str) -> None:
    """Remove a sealed plan, with its edits; a redrive that it has become goes on."""
    for end in (EDITS, _FORECAST, _RISKS, ".json"):
        (plans_folder() / f"{redrive_id}{end}").unlink(missing_ok=True)
