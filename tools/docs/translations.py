"""The texts of the console in files of gettext: the template, and the shipped translations.

`./dlx docs --generate` renews them: a new text comes without a translation, one that went goes.
"""

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from streaming.console.languages import FOLDER
from streaming.metrics.alerts import RULES, shipped_alerts
from tools.docs.markdown import ROOT, name_of
from topology.findings import KINDS

TEMPLATE: Final = FOLDER / "console.pot"
CALLS: Final = {"say": None, "say_count": (1, 2), "to_say": None}
"""The functions whose first arguments are texts; see `topology.sentences`."""

SOURCES: Final = ("streaming/console", "streaming/queries", "topology")
_IN_TEMPLATES: Final = {"_": None, "gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
_OPTIONS: Final = {"trimmed": "true", "newstyle_gettext": "true", "silent": "false"}
_DATE: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""No date of a file: it would change with each renewal."""


def template() -> Catalog:
    """Collect the texts of code and templates, the remedies of findings, and what alerts say."""
    found = _catalog()
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("*")):
            if file.suffix in {".py", ".html"}:
                _collect(file, found)
    for kind in KINDS.values():
        found.add(kind.remedy, None, [(name_of(ROOT / "topology/findings.py"), 0)])
    for alert in shipped_alerts().values():
        for text in (alert.summary, alert.action):
            found.add(text, None, [(name_of(RULES), 0)])
    return found


def _collect(file: Path, found: Catalog) -> None:
    method, calls = ("python", CALLS) if file.suffix == ".py" else ("jinja2", _IN_TEMPLATES)
    with file.open("rb") as content:
        for _line, text, comments, context in extract(
            method, content, calls, ["Translators:"], _OPTIONS, strip_comment_tags=True
        ):
            place = [(name_of(file), 0)]
            found.add(text, None, place, auto_comments=comments, context=context)


def written(catalog: Catalog) -> str:
    """A catalogue as its file has it."""
    content = io.BytesIO()
    write_po(
        content, catalog, width=100, include_lineno=False, sort_by_file=True, ignore_obsolete=True
    )
    lines = content.getvalue().decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith('"Generated-By'))


def files() -> dict[Path, str]:
    """Every file as it should be."""
    wanted = template()
    found = {TEMPLATE: written(wanted)}
    for file in sorted(FOLDER.glob("*.po")):
        with file.open("rb") as content:
            translation = read_po(content)
        translation.update(wanted, no_fuzzy_matching=True)
        for header in ("creation_date", "revision_date"):
            setattr(translation, header, _DATE)
        found[file] = written(translation)
    return found


def _catalog() -> Catalog:
    return Catalog(
        project="dlx-stream",
        version="1",
        header_comment="# The texts of the console. Copy this file to CODE.po and translate it.",
        creation_date=_DATE,
        fuzzy=False,
    )


def renew() -> list[str]:
    """Write them; the names of the files that changed."""
    changed = []
    for file, text in files().items():
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            changed.append(name_of(file))
    return changed
