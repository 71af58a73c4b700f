"""The languages of the console: a translation is a file of gettext, as Poedit and others write it.

    templates, say(...) --./dlx docs --generate--> translations/console.pot
    console.pot --a translator--> de.po --Languages--> the pages of whoever reads German

What a translation does not have is shown in English. Instants are written alike in all languages,
since fields take them so; how numbers are written is a message of the translation.
"""

import gettext
import io
import logging
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from streaming.console import shown
from topology.errors import DlxError
from topology.sentences import Sentence, filled, to_say, written

FOLDER: Final = Path(__file__).parent / "translations"
SOURCE: Final = "en"
"""The language of the texts in the code."""

MAX_ACCEPTED: Final = 20
"""How many languages of a browser are looked at."""

# Translators: how your language writes this number; the console writes all numbers like it
_NUMBER: Final = to_say("1,234.5")
_SEPARATORS: Final = re.compile(r"1(\D?)234(\D)5")
_NAMED: Final = re.compile(r"%\((\w+)\)s")
_OF_SCRIPTS: Final = re.compile(r"\{\w+\}")
_OF_ALERTS: Final = re.compile(r"\{\{.*?\}\}")

logger = logging.getLogger(__name__)


class LanguageError(DlxError):
    """There is no such translation, or it cannot be read."""


class Language:
    """What pages are said in.

    Attributes:
        code: of the language, such as `de` or `pt-BR`.
    """

    def __init__(self, code: str, translations: gettext.NullTranslations) -> None:
        self.code = code
        self._translations = translations
        found = _SEPARATORS.fullmatch(translations.gettext(_NUMBER))
        self._separators = str.maketrans(",.", "\0\1")
        self._group, self._decimal = found.groups() if found else (",", ".")
        self._is_english = (self._group, self._decimal) == (",", ".")

    def said(self, text: str) -> str:
        """Translate a sentence; any other text is returned as it is."""
        if not isinstance(text, Sentence):
            return text
        return filled(self._template(text), text.values, self.written)

    def _template(self, text: Sentence) -> str:
        if text.many is None:
            return self._translations.gettext(text.template)
        return self._translations.ngettext(text.template, text.many, text.counted)

    def word(self, text: str) -> str:
        """Translate a text that `to_say` marks; one that it does not know is returned as it is."""
        return self._translations.gettext(text) if text else text

    def number(self, value: float | None) -> str:
        """A number with separators: `1,234,567`."""
        return self._punctuated(shown.number(value))

    def written(self, value: object) -> str:
        """A value in a sentence."""
        if isinstance(value, str):
            return self.said(value)
        text = written(value)
        return self._punctuated(text) if isinstance(value, int | float) else text

    def _punctuated(self, number: str) -> str:
        if self._is_english:
            return number
        parts = number.translate(self._separators)
        return parts.replace("\0", self._group).replace("\1", self._decimal)

    # -- for templates

    def finalize(self, value: object) -> object:
        """Prepare the value of an expression in a template."""
        return shown.finalize(self.said(value) if isinstance(value, Sentence) else value)

    def gettext(self, template: str, /, **values: object) -> Markup:
        """Translate markup; values are escaped as everywhere."""
        return self._markup(template, self._translations.gettext(template), values)

    def pgettext(self, context: str, template: str, /, **values: object) -> Markup:
        """Translate markup that English has in several senses; the context tells them apart."""
        return self._markup(template, self._translations.pgettext(context, template), values)

    def ngettext(self, one: str, many: str, count: int, /, **values: object) -> Markup:
        """Translate markup that counts."""
        return self._markup(one, self._translations.ngettext(one, many, count), values)

    def _markup(self, source: str, template: str, values: Mapping[str, object]) -> Markup:
        if "<" not in source:  # nor has a translation of it markup, and it may be an attribute
            template = template.replace("<", "&lt;").replace('"', "&quot;")
        return Markup(filled(template, values, self._escaped))  # noqa: S704 - a text of ours

    def _escaped(self, value: object) -> Markup:
        is_number = isinstance(value, int | float)
        return escape(self.written(value) if is_number else self.finalize(value))


ENGLISH: Final = Language(SOURCE, gettext.NullTranslations())


class Languages:
    """The languages that there are.

    Attributes:
        chosen: a code, or the file of a translation, for all; None: as each browser asks.

    Raises:
        LanguageError: there is none such, or the file cannot be read.
    """

    def __init__(self, chosen: str | None = None, folder: Path = FOLDER) -> None:
        self.chosen = chosen
        self._files = {file.stem: file for file in sorted(folder.glob("*.po"))}
        self._known = {SOURCE: ENGLISH}
        self._lock = threading.Lock()
        self._only: Language | None = None
        if chosen is None:
            return
        if chosen.endswith(".po"):
            self._only = read_translation(Path(chosen))
            self._known = {self._only.code: self._only}
        elif chosen in self.codes:
            self._only = self.named(chosen)
        else:
            known = ", ".join(self.codes)
            fault = f"language: there is no translation {chosen!r}; there are {known}"
            raise LanguageError(f"{fault}, and files whose names end in .po")

    @property
    def codes(self) -> list[str]:
        """The codes of the languages."""
        return sorted({SOURCE, *self._files})

    def named(self, code: str) -> Language:
        """The language with a code; English if there is none."""
        if self._only is not None:
            return self._only
        with self._lock:
            if code not in self._known and code in self._files:
                self._known[code] = read_translation(self._files[code])
            return self._known.get(code, ENGLISH)

    def wanted(self, accepted: str | None) -> Language:
        """The language for a browser, by its header `Accept-Language`."""
        if self._only is not None:
            return self._only
        known = {code.lower(): code for code in self.codes}
        for code in _preferred(accepted or ""):
            found = known.get(code) or known.get(code.partition("-")[0])
            if found is not None:
                return self.named(found)
        return ENGLISH


def _preferred(accepted: str) -> list[str]:
    """The codes of such a header, those that are preferred first; none that is refused."""
    weights: dict[str, float] = {}
    for part in accepted.lower().split(",")[:MAX_ACCEPTED]:
        code, _, weight = part.partition(";")
        try:
            weights[code.strip()] = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
    return sorted((code for code, one in weights.items() if one > 0), key=lambda one: -weights[one])


def read_translation(file: Path) -> Language:
    """Read a file of gettext; messages that would break a page are left out.

    Raises:
        LanguageError: it cannot be read.
    """
    from babel.messages.mofile import write_mo  # noqa: PLC0415 - for whoever reads no English
    from babel.messages.pofile import PoFileError, read_po  # noqa: PLC0415

    try:
        with file.open("rb") as source:
            catalog = read_po(source, ignore_obsolete=True, abort_invalid=True)
        code = str(catalog.locale_identifier or file.stem).replace("_", "-")
        for message in list(catalog):
            if message.id and not fits(message):
                logger.warning("console: %s: %r lacks a value or has another", file, message.id)
                catalog.delete(message.id, message.context)
        compiled = io.BytesIO()
        write_mo(compiled, catalog)
    except OSError as error:
        raise LanguageError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, PoFileError) as error:
        raise LanguageError(f"{file}: is not a translation: {error}") from None
    compiled.seek(0)
    return Language(code, gettext.GNUTranslations(compiled))


def fits(message: Any) -> bool:
    """Whether the values of a message can be put in its translation."""
    sources = message.id if isinstance(message.id, tuple) else (message.id,)
    targets = message.string if isinstance(message.string, tuple) else (message.string,)
    names = {name: "" for one in sources for name in _NAMED.findall(one)}
    in_alerts = {value for one in sources for value in _OF_ALERTS.findall(one)}
    if any({*_OF_ALERTS.findall(one)} - in_alerts for one in targets):
        return False
    in_scripts = {name for one in sources for name in _OF_SCRIPTS.findall(one)}
    try:
        return all(in_scripts >= {*_OF_SCRIPTS.findall(one % names)} for one in targets)
    except (KeyError, TypeError, ValueError):
        return False
