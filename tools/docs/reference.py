"""The generated parts of the documentation, and where they go.

A page holds `<!-- begin NAME -->` and `<!-- end NAME -->`; what stands between them is generated.
"""

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import typer.main
from typer.testing import CliRunner

from streaming.broker.events import Kind
from streaming.cli.doctor.explain import TEXTS
from streaming.cli.main import build_app
from streaming.config import settings_reference
from streaming.dlx_api.questions import QUESTIONS
from streaming.exposition.families import Family
from streaming.front_metrics.families import FRONT
from streaming.metrics.alert_cases import CASES
from streaming.metrics.alerts import alert_names
from streaming.metrics.collector import JOB
from streaming.protocol import defaults
from streaming.scenario import json_schema as schema
from tools.docs import api
from tools.docs.markdown import DOCS, name_of, pages
from tools.docs.tables import reference as tables_reference
from topology.findings import KINDS

COMPATIBILITY: Final = DOCS / "compatibility.toml"
SCENARIO_SCHEMA: Final = DOCS / "scenario.schema.json"

_PART: Final = re.compile(
    r"(?P<begin><!-- begin (?P<name>[^\n]*) -->\n)(?P<text>.*?)(?P<end><!-- end (?P=name) -->)",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"^ +([A-Z_]+) = \d+  # (.+)$", re.MULTILINE)
"""A member of the enumeration of event kinds, and its comment."""

_RULE: Final = re.compile(r"R-[A-Z]+-\d+")
_WORDS: Final = {"same": "same", "differs": "**differs**", "absent": "**absent**"}


class Row(NamedTuple):
    """A row of the compatibility page; `readme` says that the README has it too."""

    feature: str
    status: str
    note: str
    readme: bool


def compatibility_groups() -> dict[str, list[Row]]:
    """The rows of the compatibility page, by group."""
    document = tomllib.loads(COMPATIBILITY.read_text("utf-8"))
    return {
        group["title"]: [
            Row(row["feature"], row["status"], row.get("note", ""), row.get("readme", False))
            for row in group["row"]
        ]
        for group in document["group"]
    }


def _compatibility() -> Iterator[str]:
    for title, rows in compatibility_groups().items():
        yield from (f"## {title}", "", *_rows(rows), "")


def _readme_compatibility() -> Iterator[str]:
    return _rows([row for rows in compatibility_groups().values() for row in rows if row.readme])


def _rows(rows: list[Row]) -> Iterator[str]:
    yield from ("| RabbitMQ | here | what to know |", "|---|---|---|")
    yield from (f"| {row.feature} | {_WORDS[row.status]} | {row.note} |" for row in rows)


def _table_list() -> Iterator[str]:
    yield from ("| table | a row is | key |", "|---|---|---|")
    for table in tables_reference():
        key = ", ".join(f"`{name}`" for name in table.key)
        yield f"| [`{table.name}`](#{table.name}) | {table.row} | {key} |"


def _columns() -> Iterator[str]:
    for table in tables_reference():
        yield from (f"## {table.name}", "", "| column | type | what it is |", "|---|---|---|")
        yield from (f"| `{name}` | {kind} | {what} |" for name, kind, what in table.columns)
        yield ""


def event_kinds() -> dict[str, str]:
    """What each kind of event means: the comments of the enumeration, in its order."""
    comments = dict(_MEMBER.findall(inspect.getsource(Kind)))
    return {kind.name.lower(): comments.get(kind.name, "") for kind in Kind}


def _event_kinds() -> Iterator[str]:
    yield from ("| kind | what happened |", "|---|---|")
    for kind, meaning in event_kinds().items():
        linked = _RULE.sub(lambda rule: f"[{rule[0]}](semantics.md#{rule[0].lower()})", meaning)
        yield f"| `{kind}` | {linked} |"
    yield "| `batch` | a batch was committed; `detail` holds its totals |"
    yield "| `erased` | the data of `number` messages was erased; `reason` says why |"


def _metrics() -> Iterator[str]:
    return _families(JOB.families)


def _front_metrics() -> Iterator[str]:
    """Those that the job does not have."""
    known = {family.name for family in JOB.families}
    return _families([family for family in FRONT.families if family.name not in known])


def _families(families: Sequence[Family[Any]]) -> Iterator[str]:
    yield from ("| family | form | labels | what it is |", "|---|---|---|---|")
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
        yield f"| `{family.name}` | {family.form} | {labels} | {family.help} |"


def _alerts() -> Iterator[str]:
    yield from ("| alert | severity | a cause that fires it |", "|---|---|---|")
    for name, severity in alert_names().items():
        causes = "; ".join(case.cause for case in CASES if name in case.fires)
        yield f"| `{name}` | {severity} | {causes} |"


def _commands() -> Iterator[str]:
    for path in command_paths():
        words = " ".join(["dlx", *path])
        yield from (f"{'#' * max(2, len(path) + 1)} {words}", "")
        yield from ("```text", _help(path), "```", "")


def _help(path: tuple[str, ...]) -> str:
    """What a command prints with --help."""
    environment = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    app = build_app(path[:1] or None)
    shown = CliRunner().invoke(app, [*path, "--help"], env=environment, prog_name="dlx")
    return shown.output.rstrip()


def command_paths() -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield ()
    yield from _below(typer.main.get_command(build_app()), ())


def _below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield (*path, name)
            yield from _below(child, (*path, name))


def _configuration() -> Iterator[str]:
    for section in settings_reference():
        yield from (f"## `{section.header}`", "", section.description, "")
        yield from ("| setting | value | default | what it is |", "|---|---|---|---|")
        for each in section.settings:
            value = f"{each.takes}: {each.bounds}" if each.bounds else each.takes
            default = f"`{each.default}`" if each.default else "not set"
            default = "required" if each.is_required else default
            fixed = " Fixed by the checkpoint." if each.is_fixed else ""
            yield f"| `{each.name}` | {value} | {default} | {each.description}{fixed} |"
        yield ""


def _client_defaults() -> Iterator[str]:
    yield from ("| | client | command line | wire format | why |", "|---|---|---|---|---|")
    for row in defaults.TABLE:
        yield f"| {row.name} | {row.client} | {row.command_line} | {row.wire} | {row.reason} |"


def _questions() -> Iterator[str]:
    yield "| request | answer | parameters |"
    yield "|---|---|---|"
    for one in QUESTIONS:
        path = re.sub(r"{(\w+)}", lambda found: found[1].upper(), one.path)
        taken = ", ".join(f"`{each.name}`" for each in one.parameters)
        yield f"| `{one.method} {path}` | {one.summary} | {taken} |"


def _findings() -> Iterator[str]:
    yield from ("| code | severity | what to do |", "|---|---|---|")
    for code, kind in KINDS.items():
        yield f"| `{code}` | {kind.severity} | {kind.remedy} |"


PARTS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "alerts": _alerts,
    "errors": lambda: iter(TEXTS.read_text("utf-8").splitlines()),
    "client defaults": _client_defaults,
    "columns": _columns,
    "commands": _commands,
    "compatibility": _compatibility,
    "compatibility in short": _readme_compatibility,
    "questions of the api": _questions,
    "configuration": _configuration,
    "event kinds": _event_kinds,
    "findings": _findings,
    "front metrics": _front_metrics,
    "metrics": _metrics,
    "python api": api.reference,
    "queries api": api.queries_reference,
    "tables": _table_list,
}
"""Name -> the function that gives a part's lines. `./dlx diagram ...` is a name as well."""


def generated(name: str) -> str:
    """The text of a part.

    Raises:
        KeyError: there is no such part.
    """
    return "\n".join(PARTS[name]()).rstrip() + "\n"


def renewed(text: str) -> str:
    """A page's text with all its generated parts as they should be now."""
    return _PART.sub(lambda found: found["begin"] + generated(found["name"]) + found["end"], text)


def scenario_schema() -> str:
    """The JSON Schema of scenario files."""
    return json.dumps(schema.json_schema(), indent=2, ensure_ascii=False) + "\n"


def write_all() -> list[str]:
    """Write everything that is generated; the names of the files that changed."""
    wanted = {page: renewed(page.read_text("utf-8")) for page in pages()}
    wanted[SCENARIO_SCHEMA] = scenario_schema()
    changed = []
    for file, text in wanted.items():
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            changed.append(name_of(file))
    return changed
