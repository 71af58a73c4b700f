"""The words of tables have a translation each: none that the broker writes is forgotten."""

import ast
import re
from pathlib import Path

from streaming.broker import handlers
from streaming.broker.events import Kind
from streaming.broker.redrives import moves, open_redrives
from streaming.console import event_words as words
from streaming.queries import message_history
from streaming.queries.redrives import outcomes

HANDLERS = Path(handlers.__file__).parent
_CHANGE = re.compile(r"[a-z_]+_(?:set|cleared|declared|deleted)|bound|unbound|deployed")


def texts_of(*files):
    """The texts in modules."""
    nodes = (node for file in files for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_kind_of_event_has_a_word():
    assert tuple(kind.name.lower() for kind in Kind) == words.KINDS


def test_every_outcome_of_a_death_has_a_word():
    assert {*words.OUTCOMES, *words.KINDS} >= {*message_history.LOSSES, "dead_lettered"}


def test_every_change_of_the_topology_has_a_word():
    written = {one for one in texts_of(*HANDLERS.glob("*.py")) if _CHANGE.fullmatch(one)}
    shown = {one.replace("_", " ") for one in written}

    assert len(shown) > 10
    assert shown - {*words.CHANGES} == set()


def test_everything_that_a_redrive_or_its_letter_is_has_a_word():
    known = {*words.OF_REDRIVES, *words.KINDS, *words.OUTCOMES, *words.SKIPS}
    skips = {value for name, value in vars(moves).items() if name.isupper() and type(value) is str}
    query = " ".join(texts_of(outcomes.__file__))
    told = set(re.findall(r"THEN\s+'(\w+)'|ELSE '(\w+)' END", query))
    statuses = {one for pair in told for one in pair if one}

    assert skips
    assert skips - known == set()
    assert statuses >= {"running", "finished", "waiting", "parked"}
    assert statuses - known == set()
    assert {"requested", "resumed"} <= texts_of(open_redrives.__file__) & known
