"""Sentences for people: English, and what they were made of, so that a reader can translate them.

    say("%(count)s letters wait in %(queue)s", count=1200, queue="work")
        == "1,200 letters wait in work"         for everybody who knows nothing of languages
        .template, .values                      for the console, see `streaming.console.languages`

Values are named, because another language may need them in another order. A percent sign of the
text itself is doubled. `./dlx docs --generate` collects the texts, also those of `to_say`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

_TENTH: Final = 0.1


class Sentence(str):
    """A text in English that knows its template.

    Attributes:
        many: the template for any number but one; None: the sentence counts nothing.
        counted: the number that it is about.
        values: by the names that the templates have.
    """

    __slots__ = ("counted", "many", "template", "values")

    template: str
    many: str | None
    counted: int
    values: Mapping[str, object]


def say(template: str, /, **values: object) -> Sentence:
    """Return a sentence; its numbers have separators."""
    return _sentence(template, None, 0, values)


def say_count(one: str, many: str, count: int, /, **values: object) -> Sentence:
    """Return the sentence for a count, which is its value `count`."""
    return _sentence(one, many, count, {"count": count, **values})


def joined(parts: Sequence[str], separator: str) -> str:
    """Join sentences to one."""
    names = [f"part{number}" for number in range(len(parts))]
    template = separator.join(f"%({name})s" for name in names)
    return _sentence(template, None, 0, dict(zip(names, parts, strict=True)))


def said(error: Exception) -> str:
    """What an error says; a sentence if it is made of one, so that it can be translated."""
    return error.args[0] if error.args and isinstance(error.args[0], Sentence) else str(error)


def to_say(text: str) -> str:
    """Return a text that is translated where it is shown."""
    return text


def plain(value: object) -> str:
    """A sentence as a text, for what writes texts only."""
    if isinstance(value, Sentence):
        return str(value)
    raise NotImplementedError(type(value))


def _sentence(
    template: str, many: str | None, count: int, values: Mapping[str, object]
) -> Sentence:
    chosen = template if many is None or count == 1 else many
    found = Sentence(filled(chosen, values, written))
    found.template, found.many, found.counted, found.values = template, many, count, values
    return found


def filled(template: str, values: Mapping[str, object], write: Callable[[object], object]) -> str:
    """Put values in a template."""
    return template % {name: write(value) for name, value in values.items()}


def written(value: object) -> str:
    """A value in a sentence: `1,234`, `0.5`, `0.02`, or as it is; nothing for None."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if not value or abs(value) >= _TENTH else f"{value:.2f}"
    return "" if value is None else str(value)
