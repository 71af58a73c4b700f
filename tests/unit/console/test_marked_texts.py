"""No page has a text that a translation cannot reach: code and templates are read, not run."""

import ast
import re
from html.parser import HTMLParser

import pytest
from jinja2 import nodes

from streaming.console.languages import ENGLISH, Languages
from streaming.console.rendering import HERE, faithful, make_templates
from topology.sentences import say

TEMPLATES = sorted(file.name for file in (HERE / "templates").glob("*.html"))
MODULES = sorted(str(file.relative_to(HERE)) for file in HERE.rglob("*.py"))
SHOWN = {"title", "aria-label", "placeholder", "alt"}
"""The attributes that somebody reads."""

LITERAL = {"code", "kbd", "style", "script"}
"""Elements whose text is no language."""

MACROS = {
    "changed_before": (4,),
    "figure": (0, 1, 2),
    "nothing": (0,),
    "field": (1, 3),
    "choice": (1, 4),
    "graph": (1,),
    "source": (1,),
    "head": (1,),
    "groups": (0,),
}
"""Which of its arguments a macro shows."""

HOLE = "\ufffc"
NAMES = {
    *("dlx", "(Kafka)", "UTC", "TLS", "SQL", "Kafka", "x-death", "NAME=VALUE", "Ctrl"),
    *("queue", "vhost", "exchange", "routing_key", "header", "cause", "reason", "outcome"),
    *("rejected", "expired", "maxlen", "delivery_limit", "orphaned", "dead_lettered"),
    *("csv", "jsonl", "parquet", "raw", "live"),
    *("tenant, attempt", "expiration", "routing_key LIKE '%eu%'"),
    *("replace(decode(body), 'eur', 'EUR')", '{"tenant": "b"}', '{"priority": 5}'),
}
"""Words of RabbitMQ and of programs, and examples in fields: they are the same in all languages."""

WORD = re.compile(r"[A-Za-z]{2,}")


def test_a_text_that_is_no_sentence_of_ours_is_quoted_in_other_languages():
    german = Languages("de").wanted(None)
    reply = "403 ACCESS_REFUSED - read access to queue <b>"

    assert faithful(reply, german) == (
        '<q lang="en">403 ACCESS_REFUSED - read access to queue &lt;b&gt;</q>'
    )
    assert faithful(reply, ENGLISH) == "403 ACCESS_REFUSED - read access to queue &lt;b&gt;"
    ours = say("This is about the vhosts that you may see.")
    assert "<q" not in faithful(ours, german)


def shown_in(node):
    """The constants of an expression that may be shown."""
    match node:
        case nodes.Const(value=str(text)):
            yield text
        case nodes.TemplateData():
            yield node.data
        case nodes.CondExpr():
            yield from shown_in(node.expr1)
            yield from shown_in(node.expr2)
        case nodes.Or() | nodes.And() | nodes.Add():
            yield from shown_in(node.left)
            yield from shown_in(node.right)
        case nodes.Concat():
            for one in node.nodes:
                yield from shown_in(one)
        case nodes.Filter():
            yield from shown_in(node.node)
        case nodes.List() | nodes.Tuple():
            for one in node.items:
                yield from shown_in(one)
        case nodes.Dict(items=pairs):
            for pair in pairs:
                yield from shown_in(pair.value)
        case nodes.Call(node=called):
            name = getattr(called, "attr", getattr(called, "name", ""))
            for number in MACROS.get(name, ()):
                yield HOLE
                if number < len(node.args):
                    yield from shown_in(node.args[number])
            yield HOLE
        case _:
            yield HOLE


class Texts(HTMLParser):
    """Collects what somebody reads."""

    def __init__(self):
        super().__init__()
        self.found = []
        self._inside = []

    def handle_starttag(self, tag, attrs):
        if tag in LITERAL:
            self._inside.append(tag)
        self.found += [value for name, value in attrs if name in SHOWN and value]

    def handle_endtag(self, tag):
        if tag in self._inside:
            self._inside.remove(tag)

    def handle_data(self, data):
        if not self._inside:
            self.found.append(data)


def unmarked(template):
    environment = make_templates()
    parsed = environment.parse((HERE / "templates" / template).read_text("utf-8"))
    children: list[nodes.Node] = []
    children += [child for output in parsed.find_all(nodes.Output) for child in output.nodes]
    children += [assigned.node for assigned in parsed.find_all(nodes.Assign)]
    stream = ""
    for child in children:
        if isinstance(child, nodes.TemplateData):
            stream += child.data
        else:
            stream += "".join(one.replace('"', "&quot;") for one in shown_in(child))
    texts = Texts()
    texts.feed(stream)
    parts = (part.strip(" ·\n") for text in texts.found for part in text.split(HOLE))
    return [part for part in parts if WORD.search(part) and part not in NAMES]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_text_of_a_template_is_marked(template):
    assert unmarked(template) == []


ERRORS = {"Refused", "QueryError", "BudgetError", "FrontError", "Concern"}
"""What a page shows the arguments of."""


def said_plainly(module):
    """The texts in a module that a page shows, and that no translation knows."""
    for node in ast.walk(ast.parse((HERE / module).read_text("utf-8"))):
        shown = []
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in ERRORS:
                shown = node.args[:2]
            case ast.Assign(targets=[ast.Attribute(attr="title")]):
                shown = [node.value]
            case ast.Assign(targets=[ast.Name(id="what")]):
                shown = [node.value]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="found" | "said"), attr="append")):
                shown = node.args
            case ast.keyword(arg="nav"):
                shown = [node.value]
        for one in shown:
            text = ast.unparse(one)
            if isinstance(one, ast.JoinedStr) or (
                isinstance(one, ast.Constant) and isinstance(one.value, str) and " " in one.value
            ):
                yield text


@pytest.mark.parametrize("module", MODULES)
def test_every_text_of_a_module_is_a_sentence(module):
    assert list(said_plainly(module)) == []


TOPOLOGY = HERE.parents[1] / "topology"
OF_TOPOLOGY = sorted(str(file.relative_to(TOPOLOGY)) for file in TOPOLOGY.rglob("*.py"))
PROBLEMS = {"Problem": 1, "DeclarationError": 1, "ArgumentError": 1, "_invalid_policy": 1}
REPORTED = {"problem": 1, "skip": 1, "_problem": 1, "_skip": 2, "_wrong": 1}
"""Which argument of a function or a method is what a problem says."""

WORDS = {"what", "words", "fault", "reserved", "given"}


def problems_said_plainly(module):
    """The texts of problems in a module that no translation knows."""
    for node in ast.walk(ast.parse((TOPOLOGY / module).read_text("utf-8"))):
        shown = []
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in PROBLEMS:
                shown = node.args[PROBLEMS[name] :][:1]
            case ast.Call(func=ast.Name(id="ValueError")):
                shown = node.args[:1]
            case ast.Call(func=ast.Attribute(attr=name)) if name in REPORTED:
                shown = node.args[REPORTED[name] :][:1]
            case ast.Assign(targets=[ast.Name(id=name)]) if name in WORDS:
                shown = [node.value]
        yield from (
            ast.unparse(one)
            for one in shown
            if isinstance(one, ast.JoinedStr)
            or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        )


@pytest.mark.parametrize("module", OF_TOPOLOGY)
def test_every_text_of_a_problem_of_definitions_is_a_sentence(module):
    assert list(problems_said_plainly(module)) == []
