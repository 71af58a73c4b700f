"""The templates of pages, in each language."""

import re
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup, escape

from streaming.console.event_words import REASONS
from streaming.console.languages import ENGLISH, Language
from streaming.console.shown import FILTERS, finalize, preview, printable
from streaming.queries.ends import end_of_letter
from streaming.queries.message_history import LOSSES
from topology.sentences import Sentence

HERE: Final = Path(__file__).parent
_CODE: Final = re.compile("`([^`]+)`")


def with_code(text: str) -> Markup:
    """A text as markup, in which commands that have backticks around them are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(printable(text)))))  # noqa: S704 - it is escaped


def faithful(text: str, language: Language) -> Markup:
    """A sentence in a language; any other text, such as a reply of RabbitMQ's, as a quotation."""
    said = with_code(language.said(text))
    if language is ENGLISH or isinstance(text, Sentence):
        return said
    return Markup('<q lang="en">{}</q>').format(said)


def make_templates(language: Language = ENGLISH) -> jinja2.Environment:
    """Return the templates in a language; they escape everything, and stay compiled."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize if language is ENGLISH else language.finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    templates.policies["ext.i18n.trimmed"] = True
    templates.newstyle_gettext = True  # type: ignore[attr-defined]  # of the extension
    templates.globals |= {
        "_": language.gettext,
        "gettext": language.gettext,
        "ngettext": language.ngettext,
        "pgettext": language.pgettext,
        "language": language.code,
        "reasons": REASONS,
    }
    templates.filters |= FILTERS
    templates.filters |= {
        "code": lambda text: faithful(text, language),
        "number": language.number,
        "word": language.word,
        "preview": lambda value: preview(
            language.written(value) if isinstance(value, str) else value
        ),
        "end_of_letter": end_of_letter,
        "lost_because": lambda outcome: language.word(LOSSES.get(outcome, outcome or "")),
    }
    return templates
