"""A scenario's publishes and commands as Kafka records, and replies from Kafka records."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from streaming.broker.commands import CheckedPublish, Command
from streaming.broker.redrive_letters import RedriveOptions
from streaming.protocol import record_headers as wire
from streaming.scenario import replies
from streaming.scenario.core_broker import normalised
from streaming.scenario.steps import Publish
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.definitions.objects import declaration_document
from topology.values import table_from_json, table_to_json


class LogRecord(NamedTuple):
    """A record of the log; `at_ms` is its timestamp, epoch milliseconds."""

    at_ms: int
    value: bytes
    headers: list[tuple[str, bytes]]


def publish_record(at_ms: int, publish: Publish, vhost: str) -> LogRecord:
    """The record of a publish with a confirm."""
    publication = publish.publication
    flags = ["confirm"]
    flags += ["mandatory"] if publish.mandatory else []
    flags += ["immediate"] if publish.immediate else []
    headers = [
        (wire.VHOST, vhost.encode()),
        (wire.EXCHANGE, publication.exchange.encode()),
        (wire.ROUTING_KEY, publication.routing_key.encode()),
        (wire.PROPERTIES, _json(publish.properties)),
        (wire.FLAGS, ",".join(flags).encode()),
        (wire.CHANNEL, publish.channel.encode()),
    ]
    if publish.headers is not None:
        headers.append((wire.HEADERS, _json(table_to_json(publish.headers))))
    return LogRecord(at_ms, publish.body.encode(), headers)


def command_record(at_ms: int, command: Command, vhost: str) -> LogRecord:
    """The record of a command."""
    document = command_document(command)
    headers = [(wire.OP, str(document["op"]).encode()), (wire.VHOST, vhost.encode())]
    return LogRecord(at_ms, _json(document), headers)


def command_document(command: Command | CheckedPublish) -> dict[str, Any]:
    """The JSON object of a command, or of a step of a transaction check."""
    document: dict[str, Any] = {"op": command.__struct_config__.tag}
    for field in msgspec.structs.fields(command):
        value = getattr(command, field.name)
        if value is not None:
            document[field.encode_name] = _member(field.name, value)
    return document


def _member(name: str, value: Any) -> Any:
    match value:
        case Exchange() | Queue() | Binding() | Policy():
            return declaration_document(value)
        case dict() if name in {"arguments", "headers"}:
            return table_to_json(value)
        case RedriveOptions():
            return msgspec.to_builtins(value)
        case tuple() if name == "letters":
            return msgspec.to_builtins(value)
        case tuple() if name == "steps":
            return [command_document(step) for step in value]
        case tuple():
            return list(value)
        case _:
            return value


def reply_of(value: bytes, headers: Mapping[str, bytes], vhost: str) -> replies.Reply:
    """The reply in an outbound record; error texts name the vhost as the recordings do."""
    match headers[wire.KIND]:
        case b"delivery":
            redelivered = headers[wire.REDELIVERED] == b"true"
            return replies.Delivered(
                headers[wire.CHANNEL].decode(),
                headers[wire.REF].decode(),
                headers[wire.DELIVERY_ID].decode(),
                headers[wire.QUEUE].decode(),
                {**_message(value, headers), "redelivered": redelivered},
            )
        case b"return":
            text = headers[wire.REPLY_TEXT].decode()
            return replies.Returned(int(headers[wire.REPLY_CODE]), text, _message(value, headers))
    document = json.loads(value)
    match headers[wire.KIND]:
        case b"confirm":
            return replies.Confirmed(document["ack"])
        case b"publish_error":
            return replies.Refused(_error(document["error"], vhost))
        case _:
            error = document.get("error")
            return replies.Answered(
                document.get("result", {}), None if error is None else _error(error, vhost)
            )


def _message(value: bytes, headers: Mapping[str, bytes]) -> dict[str, Any]:
    """Body and attributes, in the form of the recordings."""
    table = headers.get(wire.HEADERS)
    return {
        "body": value.decode(),
        "exchange": headers[wire.EXCHANGE].decode(),
        "routing_key": headers[wire.ROUTING_KEY].decode(),
        "properties": json.loads(headers.get(wire.PROPERTIES, b"{}")),
        "headers": None if table is None else normalised(table_from_json(json.loads(table))),
    }


def _error(error: dict[str, Any], vhost: str) -> dict[str, Any]:
    return {"code": error["code"], "text": error["text"].replace(vhost, replies.VHOST)}


def by_name(headers: Any) -> dict[str, bytes]:
    """Header name -> value, from confluent-kafka's list; the last of repeated headers counts."""
    return {name: value or b"" for name, value in headers or ()}


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
