"""The pages of the Python API: signatures and docstrings of `streaming.client` and `.queries`."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from streaming import client, queries
from streaming.client import aio

_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(?P<names>[\w, .*]+): (?P<text>.*)$", re.DOTALL)


_STARS: Final = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}

CONSTRUCTED: Final = (
    *("Address", "Connection", "Message"),
    *("CauseSource", "DeadLetterFilter", "MessageId", "RedriveWish"),
)
"""Classes that users construct; the methods of a connection or channel give them the others."""


def reference() -> Iterator[str]:
    """One section per public name: `Connection` first, errors last, then asyncio's."""
    yield from _section(client, "")
    yield from _section(aio, "aio.")


def queries_reference() -> Iterator[str]:
    """One section per public name of `streaming.queries`: how to open the tables comes first."""
    yield from _section(queries, "", first=("open_tables", "Queries"))


def _section(
    module: Any, prefix: str, *, first: tuple[str, ...] = ("Connection",)
) -> Iterator[str]:
    names = sorted(module.__all__, key=lambda name: (_is_error(name), name not in first, name))
    names.sort(key=lambda name: first.index(name) if name in first else len(first))
    for name in names:
        exported = getattr(module, name)
        yield from (f"## {prefix}{name}", "")
        if inspect.isfunction(exported):
            yield from ("```text", _signature(f"{prefix}{name}", exported, bound=True), "```", "")
            yield from _documentation(exported)
        elif isinstance(exported, type):
            yield from _class(exported, prefix)
        else:
            yield from ("```text", f"{name} = {_annotation(exported)}", "```", "")


def _is_error(name: str) -> bool:
    return name.endswith("Error")


def _class(kind: type[Any], prefix: str) -> Iterator[str]:
    if issubclass(kind, Exception):
        bases = [base.__name__ for base in kind.__bases__ if base.__name__ in client.__all__]
        yield from (f"A kind of `{base}`." for base in bases)
        if bases:
            yield ""
    elif kind.__name__ in CONSTRUCTED:
        yield from ("```text", _signature(f"{prefix}{kind.__name__}", kind), "```", "")
    yield from _documentation(kind)
    for name, member in _members(kind).items():
        if not name.startswith("_") and _is_documented(member):
            yield from _member(kind, name, member, prefix)


def _members(kind: type[Any]) -> dict[str, Any]:
    """What a class and its bases in the client define, its own first."""
    members: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.startswith((client.__name__, queries.__name__)):
            members.update((name, it) for name, it in vars(base).items() if name not in members)
    return members


def _is_documented(member: Any) -> bool:
    function = getattr(member, "__func__", member)
    return bool(isinstance(member, property) or inspect.isfunction(function)) and bool(
        inspect.getdoc(member)
    )


def _member(kind: type[Any], name: str, member: Any, prefix: str) -> Iterator[str]:
    if isinstance(member, property):
        yield from (f"### {prefix}{kind.__name__}.{name} (property)", "")
    else:
        bound = isinstance(member, classmethod | staticmethod)
        asynchronous = "async " if inspect.iscoroutinefunction(member) else ""
        named = f"{prefix}{kind.__name__}.{name}"
        signature = asynchronous + _signature(named, getattr(kind, name), bound=bound)
        yield from (f"### {named}()", "", "```text", signature, "```", "")
    yield from _documentation(member)


def _signature(name: str, function: Any, *, bound: bool = False) -> str:
    """The signature as it is written, one parameter per line if it is long."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if inspect.isfunction(function) and not bound:
        parameters = parameters[1:]  # self
    returns = signature.return_annotation
    arrow = (
        ""
        if returns is inspect.Signature.empty or isinstance(function, type)
        else (f" -> {_annotation(returns)}")
    )
    texts = list(_parameters(parameters))
    line = f"{name}({', '.join(texts)}){arrow}"
    if len(line) <= 100:  # noqa: PLR2004 (the width of a page)
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){arrow}"])


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        annotation = (
            ""
            if parameter.annotation is parameter.empty
            else f": {_annotation(parameter.annotation)}"
        )
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter)}"
        if not annotation:
            default = default.replace(" ", "")
        yield f"{_STARS.get(parameter.kind.name, '')}{parameter.name}{annotation}{default}"


def _default(parameter: inspect.Parameter) -> str:
    """The default as it is written; of an object only its class."""
    text = repr(parameter.default)
    return text if len(text) <= 60 else f"{type(parameter.default).__name__}()"  # noqa: PLR2004


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b[a-z_]+(?:\.[a-z_]+)*\.(?=[A-Z])", "", text)


def _documentation(documented: Any) -> Iterator[str]:
    """A Google docstring as Markdown."""
    text = inspect.getdoc(documented) or ""
    parts = _SECTION.split(text)
    yield from _text(parts[0])
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield from (f"**{title}**", "")
        yield from _entries(inspect.cleandoc("\n" + body))
        yield ""


def _text(text: str) -> Iterator[str]:
    """Paragraphs; what is indented is code."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith(("    ", "with ")):
            yield from ("```text", inspect.cleandoc("\n" + paragraph), "```", "")
        elif paragraph:
            yield from (paragraph, "")


def _entries(body: str) -> Iterator[str]:
    """`name: description` entries as a list; anything else as text."""
    for entry in re.split(r"\n(?=\S)", body):
        joined = " ".join(entry.split())
        found = _ENTRY.match(joined)
        yield f"* `{found['names']}`: {found['text']}" if found else joined
