"""`dlx doctor explain`: what an error of a job means, and what to do."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from streaming.cli.exit_codes import EXIT_OK
from topology.errors import DlxError
from topology.suggestions import did_you_mean_or_known

TEXTS: Final = Path(__file__).with_name("errors.md")
_SECTION: Final = re.compile(
    r"^### (?P<code>[a-z-]+)\n\n(?P<text>.*?)\n*(?=^### |\Z)", re.MULTILINE | re.DOTALL
)


def explanations() -> dict[str, str]:
    """Return the text of each code, in the order of the page."""
    return {found["code"]: found["text"] for found in _SECTION.finditer(TEXTS.read_text("utf-8"))}


def _complete(typed: str) -> list[str]:
    return [code for code in explanations() if code.startswith(typed)]


def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="As an error shows it. Default: list all.", autocompletion=_complete),
    ] = None,
) -> int:
    """Explain an error of a job by its code.

    Errors of a job end in their code: (dlx doctor explain kafka-unreachable).
    """
    texts = explanations()
    if code is None:
        print(*texts, sep="\n")
        return EXIT_OK
    if code not in texts:
        raise DlxError(f"there is no error {code!r}{did_you_mean_or_known(code, list(texts))}")
    print(texts[code])
    return EXIT_OK
