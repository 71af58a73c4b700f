"""What a request carries: a bounded JSON object, and its members as RabbitMQ reads them."""

import base64
import binascii
import re
from email.message import Message
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from streaming.management.errors import ApiError, bad_request
from topology.values import MAX_DEPTH, Table, with_json_form

MAX_BODY_BYTES: Final = 20_000_000
"""The largest message or document of definitions that is read: RabbitMQ's default of everything."""

MAX_OBJECT_BYTES: Final = 1_000_000
"""The largest other request: no object of a broker is as large."""

_LINE: Final = 78
"""Erlang breaks longer lists into lines."""

_IS_FILE: Final = re.compile(rb'[; ]name="file"')
_NEEDED: Final = object()


async def read_body(request: Request, most: int) -> bytes:
    """Read a request of so many bytes at most.

    Raises:
        ApiError: 400, it is too large, or was not sent whole.
    """
    too_large = bad_request(
        f"Exceeded HTTP request body size limit; maximum allowed is {most} bytes"
    )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise too_large
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise too_large
    except ClientDisconnect:
        raise bad_request("the request was not sent whole") from None
    return bytes(data)


def uploaded(body: bytes, content_type: str) -> bytes | None:
    """The part `file` of a form as browsers send it, if any; another body as it is."""
    message = Message()
    message["content-type"] = content_type
    if message.get_content_type() != "multipart/form-data":
        return body
    boundary = message.get_boundary("").encode("utf-8", "replace")
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary) if boundary else ():
        head, _, content = part.partition(b"\r\n\r\n")
        if _IS_FILE.search(head):
            return content
    return None


_NOT_JSON: Final = "not_json"


def read_object(data: bytes, complaint: str = _NOT_JSON) -> "Members":
    """Read a JSON object; nothing is an empty one, and so is null, but for another complaint.

    Raises:
        ApiError: 400, it is something else.
    """
    try:
        document = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise bad_request(complaint) from None
    is_usual = complaint == _NOT_JSON
    if is_usual and isinstance(document, str):
        raise bad_request(
            "invalid payload: the request body JSON-decoded to a string. "
            "Is the input doubly-JSON-encoded?"
        )
    if not isinstance(document, dict) and not (is_usual and document is None):
        raise bad_request(complaint)
    return Members(document or {})


class Members:
    """The members of a JSON object."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def need(self, *names: str) -> None:
        """400 unless all of them are there."""
        absent = [f"{{key_missing,{name}}}" for name in names if name not in self.document]
        if absent:
            line = ",".join(absent)
            is_long = len(line) > _LINE
            raise bad_request("[" + (",\n ".join(absent) if is_long else line) + "]")

    def get(self, name: str) -> Any:
        """The value of a member; None if it is not there."""
        return self.document.get(name)

    def text(self, name: str, default: Any = _NEEDED) -> str:
        """A text."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise bad_request(["not_a_string", value])
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean, which may be written as text."""
        value = self.document.get(name, default)
        flag = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(flag, bool):
            raise bad_request(["not_boolean", value])
        return flag

    def whole(self, name: str, default: Any = _NEEDED) -> int:
        """A whole number, which may be written as text; of a fraction, what is before the point."""
        value = self._value(name, default)
        if isinstance(value, float):
            return int(value)
        if (
            isinstance(value, str)
            and value.lstrip("-").isascii()
            and len(value) <= len(str(1 << 63))
        ):
            try:
                return int(value)
            except ValueError:
                pass
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(["not_integer", value])
        return value

    def table(self, name: str) -> Table:
        """A table of AMQP values; an empty array is an empty table, as RabbitMQ writes it."""
        value = self.document.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(["not_an_object", name])
        return to_table(value)

    def _value(self, name: str, default: Any) -> Any:
        if default is _NEEDED:
            self.need(name)
        return self.document.get(name, default)


def to_table(document: dict[str, Any]) -> Table:
    """A JSON object as a table of AMQP values.

    Raises:
        ApiError: 400, a value is null, too large, or nested too deeply.
    """
    return {name: _amqp(value, 1) for name, value in document.items()}


def _amqp(value: Any, depth: int) -> Any:
    if value is None:
        raise bad_request("null_not_allowed")
    if depth > MAX_DEPTH:
        raise bad_request("nested_too_deeply")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise bad_request("number_too_large")
    if isinstance(value, list):
        return [_amqp(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return with_json_form({name: _amqp(item, depth + 1) for name, item in value.items()})
    return value


def expect_shallow(value: Any, depth: int = 1) -> None:
    """400 if a value of JSON is nested deeper than those of AMQP."""
    if depth > MAX_DEPTH:
        raise bad_request("nested_too_deeply")
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            expect_shallow(item, depth + 1)


def from_base64(text: str) -> bytes:
    """Decode base64, which may have spaces and ends of lines; 400 if it is none."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", text[:100]]) from None


__all__ = [
    "MAX_BODY_BYTES",
    "MAX_OBJECT_BYTES",
    "ApiError",
    "Members",
    "expect_shallow",
    "from_base64",
    "read_body",
    "read_object",
]
