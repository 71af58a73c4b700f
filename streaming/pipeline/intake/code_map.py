"""Small whole numbers by small whole numbers, for whole columns at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_NONE: Final = -1
_FIRST_SIZE: Final = 64


class CodeMap:
    """A growing map from codes (0, 1, 2, ...) to numbers (0 and above)."""

    def __init__(self) -> None:
        self._values = np.full(_FIRST_SIZE, _NONE, np.int32)

    def __setitem__(self, code: int, number: int) -> None:
        """Give a code its number."""
        self._grow(code)
        self._values[code] = number

    def of(self, codes: Any) -> Any:
        """The numbers of an array of codes, all of which have one: int32."""
        return self._values[codes]

    def missing(self, codes: Any) -> list[int]:
        """Which of an array of codes have no number yet: each once, ascending."""
        self._grow(int(codes.max()))
        found: list[int] = np.unique(codes[self._values[codes] == _NONE]).tolist()
        return found

    def _grow(self, code: int) -> None:
        size = len(self._values)
        if code >= size:
            more = np.full(max(code + 1 - size, size), _NONE, np.int32)
            self._values = np.concatenate((self._values, more))
