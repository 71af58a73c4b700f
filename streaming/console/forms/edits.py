"""What an editor changes of the letters of a plan: of one letter anything, of many what they share.

The form of one letter shows its content; a body that a text field would change is not in it.
"""

from typing import Any, Final

import msgspec

from streaming.console.forms.letters import require_sql
from streaming.console.page import Refused, View
from streaming.console.shown import printable
from streaming.protocol.letter_content import LetterContent
from streaming.queries.dead_letters.filters import NAME
from streaming.queries.redrives.edits import EditWish
from streaming.queries.sandbox import require_harmless, sandbox
from topology.sentences import say

MAX_BODY: Final = 100_000
"""The longest body, in characters, that a form shows."""

_MANY: Final = ("set_headers", "set_properties", "without_headers", "without_properties")


class ContentForm(msgspec.Struct, frozen=True):
    """A letter's content as the fields of a form.

    Attributes:
        body: None: a text field would change it, so it stays as it is.
    """

    properties: str
    headers: str
    body: str | None


def content_form(content: LetterContent) -> ContentForm:
    """Write a content for people."""
    return ContentForm(_pretty(content.properties), _pretty(content.headers), _text(content.body))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _text(body: bytes) -> str | None:
    """The body, if a form sends it back as it was."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    is_kept = len(text) <= MAX_BODY and "\r" not in text and printable(text) == text
    return text if is_kept else None


def wants_edit(view: View) -> bool:
    """Whether the form changes letters.

    Raises:
        Refused: the user may not.
    """
    wanted = "content" in view.form or any(_given(view, name) for name in (*_MANY, "body_sql"))
    if wanted and not view.may("editor"):
        what = say(
            "Editing letters needs the role editor, and you are %(yours)s.", yours=view.user.role
        )
        raise Refused(403, what)
    return wanted


def edit_of_one(view: View, original: LetterContent) -> EditWish:
    """Read the content of the only letter.

    Raises:
        Refused: it cannot be read, or is unchanged.
    """
    body = original.body
    if "body" in view.form and _text(original.body) is not None:
        body = view.form["body"].replace("\r\n", "\n").encode()  # as forms send line ends
    headers = _object(view, "headers", may_be_null=True)
    content = LetterContent(body, _object(view, "properties") or {}, headers)
    if content == original:
        raise Refused(400, say("Nothing was changed, so no plan was made."))
    return EditWish(content=content)


def edit_of_many(view: View) -> EditWish:
    """Read what is to become of every letter.

    Raises:
        Refused: a field cannot be read, or the user may not use SQL.
    """
    body_sql = _given(view, "body_sql")
    if body_sql is not None:
        require_sql(view)
        tables = view.tables
        query = f"SELECT (\n{body_sql}\n) FROM {NAME}"  # noqa: S608 - checked here
        require_harmless(tables, query, {NAME}, queries=False)
        sandbox(tables)
    return EditWish(
        headers=_object(view, "set_headers") or {},
        properties=_object(view, "set_properties") or {},
        without_headers=_names(view, "without_headers"),
        without_properties=_names(view, "without_properties"),
        body_sql=body_sql,
    )


def _given(view: View, name: str) -> str | None:
    return view.form.get(name, "").strip() or None


def _names(view: View, name: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in (_given(view, name) or "").split(",") if one.strip())


def _object(view: View, name: str, *, may_be_null: bool = False) -> dict[str, Any] | None:
    """A JSON object of a field; None if it is blank, or null.

    Raises:
        Refused: it is something else.
    """
    given = _given(view, name)
    if given is None or (may_be_null and given == "null"):
        return None
    try:
        found: dict[str, Any] = msgspec.json.decode(given, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        what = say(
            '%(name)s: expected a JSON object such as {"tenant": "b"}: %(fault)s',
            name=name,
            fault=str(error),
        )
        raise Refused(400, what) from None
    return found
