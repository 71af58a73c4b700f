r"""Policy and permission patterns, matched in time linear in the name.

RabbitMQ's patterns are Perl-compatible and unanchored (R-POL-5). Here they are RE2 patterns, which
take linear time on any input. One addition, which policies often use, needs no look-ahead: an
alternative may begin with `^(?!...)`, as in `^(?!amq\.).*`. It matches a name if the part in
parentheses does not match at the start of the name, and the rest does.
"""

import re
from collections.abc import Iterator

import re2  # type: ignore[import-untyped] # has no types

from topology.errors import UnsupportedPatternError
from topology.sentences import say

_GUARD = "^(?!"
_CLASS = re.compile(r"\[\^?\]?(?:\[:\w*:\]|\\.|[^\]\\])*\]", re.DOTALL)
_OPTIONS_FIRST = re.compile(r"\(\?[is]+\)")

_QUIET = re2.Options()
_QUIET.log_errors = False


class Pattern:
    """A compiled pattern; `text` is the pattern as it was written."""

    __slots__ = ("_alternatives", "text")

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            UnsupportedPatternError: malformed, or it cannot be matched in linear time.
        """
        self.text = text
        options = _OPTIONS_FIRST.match(text)
        prefix = options.group() if options else ""
        try:
            self._alternatives = tuple(
                _Alternative(alternative, prefix) for alternative in _split(text[len(prefix) :])
            )
        except re2.error as error:
            raise UnsupportedPatternError(text, _reason(error)) from None

    def search(self, name: str) -> bool:
        """Whether the pattern matches anywhere in the name."""
        encoded = _encoded(name)
        return any(alternative.search(encoded) for alternative in self._alternatives)


class _Alternative:
    """What a name must contain, and what must not match at its start."""

    __slots__ = ("_guards", "_wanted")

    def __init__(self, text: str, prefix: str) -> None:
        guards: list[str] = []
        while text.startswith(_GUARD) and (end := _closing(text)) is not None:
            guards.append(text[len(_GUARD) : end])
            text = "^" + text[end + 1 :]
        self._wanted = re2.compile(_encoded(prefix + text), _QUIET)
        self._guards = tuple(re2.compile(_encoded(prefix + guard), _QUIET) for guard in guards)

    def search(self, name: bytes) -> bool:
        return self._wanted.search(name) is not None and all(
            guard.match(name) is None for guard in self._guards
        )


def _encoded(text: str) -> bytes:
    """Encode text for RE2; with bytes its wrapper need not count characters."""
    return text.encode("utf-8", "surrogatepass")


def _split(text: str) -> list[str]:
    """Split a pattern with guards into its alternatives; any other pattern stays whole."""
    if _GUARD not in text:
        return [text]
    alternatives: list[str] = []
    start = depth = 0
    for at, mark in _marks(text):
        if mark == "|" and not depth:
            alternatives.append(text[start:at])
            start = at + 1
        depth += {"(": 1, ")": -1, "|": 0}[mark]
    return [*alternatives, text[start:]]


def _closing(text: str) -> int | None:
    """The position where a guard's parenthesis is closed; None if it is not."""
    depth = 0
    for at, mark in _marks(text):
        depth += {"(": 1, ")": -1, "|": 0}[mark]
        if not depth:
            return at
    return None


def _marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parentheses and bars that are neither escaped nor in a character class."""
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "[" and (in_class := _CLASS.match(text, at)):
            at = in_class.end()
        else:
            if text[at] in "()|":
                yield at, text[at]
            at += 1


def _reason(error: re2.error) -> str:
    """Explain RE2's complaint, with the usual cause if there is one."""
    (message,) = error.args
    complaint = message.decode("utf-8", "replace")
    if "(?" in complaint or "invalid escape sequence" in complaint or "repetition op" in complaint:
        return say(
            "cannot be matched in linear time or is malformed (%(complaint)s); of look-arounds "
            "only '^(?!...)' at the beginning is supported, and no back-references",
            complaint=complaint,
        )
    return say("is not a valid regular expression (%(complaint)s)", complaint=complaint)
