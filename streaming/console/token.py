"""The name of what logs in once, in a link."""

from typing import Final

TOKEN: Final = "token"  # noqa: S105 - the name of a parameter
