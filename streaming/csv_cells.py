"""Values as cells of CSV, which spreadsheets may open: no cell is a formula.

A text that a spreadsheet would compute gets an apostrophe before it, and is shown as text. Numbers
stay as they are, also those in a text.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_FORMULAS: Final = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # the wide forms too
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?")


def plain_text(value: object) -> str:
    """A value as text that is not escaped: JSON if it is nested, empty if it is null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return msgspec.json.encode(value).decode()
    return str(value)


def csv_cell(value: object) -> str:
    """The same as a cell."""
    text = plain_text(value)
    if isinstance(value, str) and text.startswith(_FORMULAS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
