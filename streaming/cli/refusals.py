"""What to do about a refusal of the broker: its own words, then a name that is alike or a remedy.

RabbitMQ's texts stay as they are; the remedy follows after them, on the same line.
"""

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from topology.errors import DlxError
from topology.suggestions import did_you_mean, did_you_mean_or_known

if TYPE_CHECKING:
    from streaming.client import BrokerError, Connection

_MISSING: Final = re.compile(r"no (queue|exchange) '(.*)' in vhost")
_KINDS: Final = ("queue", "exchange")

_REMEDIES: Final = {
    "inequivalent arg": "delete it first, or change its limits with `dlx policies set`",
    "exclusive access": "only the connection that declared an exclusive queue may use it",
    "refused for user": "an administrator can allow it with `dlx permissions set`",
    "may not edit": "set `edit_letters = true` for the user in dlx.toml and restart the job",
    "administrator": "choose an administrator with --user",
    " in use": "stop its consumers or remove its bindings first, or omit --if-unused",
    "not empty": "purge it first with `dlx queues purge`, or omit --if-empty",
}
"""Part of a refusal's text -> what to do."""


def explained(connection: "Connection", error: "BrokerError") -> "BrokerError":
    """Return the refusal with a remedy after RabbitMQ's text."""
    return type(error)(error.code, f"{error.text}{_remedy(connection, error.text)}")


def _remedy(connection: "Connection", text: str) -> str:
    missing = _MISSING.search(text)
    if missing is not None:
        return missing_name(live_names(connection), missing[1], missing[2])
    return next((f": {remedy}" for part, remedy in _REMEDIES.items() if part in text), "")


def missing_name(names: Mapping[str, list[str]], kind: str, name: str) -> str:
    """Suggest a name that is alike, or say where the names are listed."""
    suggestion = did_you_mean(name, names[kind])
    if suggestion:
        return suggestion
    [other] = [each for each in _KINDS if each != kind]
    if name in names[other]:
        return f": {name!r} is the name of {'an' if other == 'exchange' else 'a'} {other}"
    return f": `dlx {kind}s list` shows what there is, `dlx {kind}s declare` makes one"


def refuse_missing(
    connection: "Connection", section: str, member: str, name: str, what: str
) -> None:
    """Refuse a name that no object in a section of the definitions has.

    A user who may not see the definitions is not refused.

    Args:
        member: the member of an object that has its name.
        what: what is missing, after RabbitMQ's `404 NOT_FOUND - `.

    Raises:
        DlxError: there is no such object; the text has a name that is alike.
    """
    document = live_definitions(connection)
    names = [each[member] for each in document.get(section, ())]
    if document and name not in names:
        raise DlxError(f"404 NOT_FOUND - {what}{did_you_mean_or_known(name, names)}")


def live_names(connection: "Connection") -> dict[str, list[str]]:
    """The names of the queues and exchanges of a running job; none if they cannot be asked for."""
    from topology.declarations import PREDECLARED_NAMES

    document = live_definitions(connection)
    exchanges = [each["name"] for each in document.get("exchanges", ())]
    exchanges += sorted(PREDECLARED_NAMES - {""})
    return {
        "queue": [each["name"] for each in document.get("queues", ())],
        "exchange": exchanges,
    }


def live_definitions(connection: "Connection") -> dict[str, Any]:
    """What is declared in the vhost; empty if this user may not ask, or nothing answers."""
    from streaming.client import ClientError

    log = logging.getLogger("dlx.client")
    before, log.disabled = log.disabled, True  # what cannot be exported does not matter here
    try:
        return connection.channel().export_definitions()
    except ClientError:
        return {}
    finally:
        log.disabled = before
