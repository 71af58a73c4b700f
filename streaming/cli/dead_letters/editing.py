"""The options that edit letters in a plan, and the text that a person edits.

properties and headers as JSON
---
the body as it is
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from streaming.cli.option_groups import Command, options_of, with_options
from topology.errors import DlxError

if TYPE_CHECKING:
    from streaming.protocol.letter_content import LetterContent
    from streaming.queries.redrives.edits import EditWish

_LINE: Final = "---"


class EditOptions(NamedTuple):
    """How a user wants letters to be edited.

    Attributes:
        in_editor: whether a person edits the content of the only letter.
    """

    headers: dict[str, Any]
    properties: dict[str, Any]
    without_headers: tuple[str, ...]
    without_properties: tuple[str, ...]
    body_sql: str | None
    headers_sql: str | None
    in_editor: bool

    def wish(self, ask: "Callable[[], LetterContent]") -> "EditWish | None":
        """What the plan is to edit; None: nothing.

        Args:
            ask: returns the content of the only letter, for the editor.

        Raises:
            DlxError: the edited text cannot be read, or is unchanged.
        """
        from streaming.queries.redrives.edits import EditWish

        if self.in_editor:
            return EditWish(content=_edited(ask()))
        if not any(self):
            return None
        return EditWish(
            **{name: value for name, value in self._asdict().items() if name != "in_editor"}
        )


def _options(
    set_header: Annotated[
        list[str] | None,
        typer.Option(
            "--set-header",
            metavar="NAME=VALUE",
            help="Edit: set a header to typed JSON, such as 5 or true; else to text. May be "
            "repeated.",
        ),
    ] = None,
    remove_header: Annotated[
        list[str] | None,
        typer.Option("--remove-header", metavar="NAME", help="Edit: remove a header."),
    ] = None,
    set_property: Annotated[
        list[str] | None,
        typer.Option(
            "--set-property",
            metavar="NAME=VALUE",
            help="Edit: set an AMQP property, such as content_type. May be repeated.",
        ),
    ] = None,
    remove_property: Annotated[
        list[str] | None,
        typer.Option("--remove-property", metavar="NAME", help="Edit: remove an AMQP property."),
    ] = None,
    edit_body: Annotated[
        str | None,
        typer.Option(
            "--edit-body",
            metavar="SQL",
            help="Edit: the new body, such as \"replace(decode(body), 'eur', 'EUR')\".",
        ),
    ] = None,
    edit_headers: Annotated[
        str | None,
        typer.Option(
            "--edit-headers",
            metavar="SQL",
            help="Edit: the new headers, such as \"json_merge_patch(headers, '{}')\".",
        ),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit one letter in your editor: EDITOR or VISUAL.")
    ] = False,
) -> EditOptions:
    """Read the options."""
    headers = {name: _json_or_text(value) for name, value in _pairs("--set-header", set_header)}
    properties = {
        name: _property(name, value) for name, value in _pairs("--set-property", set_property)
    }
    without = tuple(remove_header or ()), tuple(remove_property or ())
    chosen = EditOptions(headers, properties, *without, edit_body, edit_headers, edit)
    if edit and any(chosen[:-1]):
        raise typer.BadParameter("contradicts the other edits: give it alone", param_hint="--edit")
    return chosen


def editing(command: Command) -> Command:
    """Give a command the options that edit letters; it receives them as `edits`."""
    return with_options(command, "edits", options_of(_options), _options)


def _pairs(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    pairs = []
    for one in given or ():
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one!r}: expected NAME=VALUE", param_hint=option)
        pairs.append((name, value))
    return pairs


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _property(name: str, value: str) -> int | str:
    """A property of its type.

    Raises:
        typer.BadParameter: there is no such property, or it cannot have the value.
    """
    from streaming.protocol.amqp_properties import WHOLE_PROPERTIES, property_fault

    is_whole = name in WHOLE_PROPERTIES and value.isascii() and value.isdecimal()
    typed: int | str = int(value) if is_whole else value
    fault = property_fault(name, typed)
    if fault is not None:
        raise typer.BadParameter(f"{name} {fault.words}", param_hint="--set-property")
    return typed


def content_text(content: "LetterContent") -> str:
    """A content as the text that a person edits.

    Raises:
        DlxError: its body is not text.
    """
    try:
        body = content.body.decode()
    except UnicodeDecodeError:
        raise DlxError("--edit: the body is not UTF-8 text: use --edit-body") from None
    document = {"properties": content.properties, "headers": content.headers}
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n{_LINE}\n{body}"


def read_content(edited: str, original: "LetterContent") -> "LetterContent":
    """Read an edited text. The newline that editors add at the end is not part of the body.

    Raises:
        DlxError: it cannot be read.
    """
    import msgspec

    from streaming.protocol.letter_content import LetterContent

    above, line, body = edited.partition(f"\n{_LINE}\n")
    if not line:
        raise DlxError(f"--edit: the line {_LINE} between headers and body is missing")
    try:
        document = json.loads(above)
        if body.endswith("\n") and not original.body.endswith(b"\n"):
            body = body[:-1]
        parts = {"properties": {}, "headers": None} | document
        return msgspec.convert({**parts, "body": body.encode()}, LetterContent)
    except (ValueError, TypeError, RecursionError) as error:
        raise DlxError(f"--edit: properties and headers cannot be read: {error}") from None


def _edited(original: "LetterContent") -> "LetterContent":
    import click

    try:
        text = click.edit(content_text(original), extension=".json")
    except click.ClickException as error:
        raise DlxError(f"--edit: {error.format_message()}: set EDITOR") from None
    edited = original if text is None else read_content(text, original)
    if edited == original:
        raise DlxError("--edit: nothing was changed, so no plan was made")
    return edited
