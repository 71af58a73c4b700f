"""The kinds of findings in a topology: a code for each, how severe it is, and what to do about it.

error      the definitions cannot be used
skipped    RabbitMQ has it, or accepts it, and dlx-stream does not act on it
warning    valid, and probably a mistake
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Severity = Literal["error", "skipped", "warning"]


class Kind(NamedTuple):
    """What findings of one code have in common."""

    severity: Severity
    remedy: str


_CORRECT = "correct the value, or remove it"
_NOT_HERE = "remove it, or run this part on RabbitMQ"

KINDS: Mapping[str, Kind] = {
    "not-json": Kind("error", "write the file as JSON in UTF-8"),
    "wrong-type": Kind("error", "give a value of the type that the message names"),
    "missing-member": Kind("error", "add the member"),
    "invalid-value": Kind("error", "use a value that the message names"),
    "unknown-vhost": Kind("error", "list the vhost under `vhosts`, or correct its name"),
    "unknown-name": Kind("error", "declare the exchange or queue, or correct the name"),
    "conflicting-declarations": Kind("error", "keep one of the declarations"),
    "invalid-exchange": Kind("error", _CORRECT),
    "invalid-queue": Kind("error", _CORRECT),
    "invalid-binding": Kind("error", _CORRECT),
    "invalid-policy": Kind("error", _CORRECT),
    "invalid-permission": Kind("error", _CORRECT),
    "too-many-problems": Kind("error", "correct the listed problems first"),
    "unknown-member": Kind("skipped", "correct the name, or remove the member"),
    "unknown-argument": Kind("skipped", "correct the name, or remove the argument"),
    "unknown-policy-key": Kind("skipped", "correct the key, or remove it"),
    "policy-key-without-effect": Kind("skipped", "remove the key if nothing needs it"),
    "policy-without-keys": Kind("skipped", "give it a key that has an effect, or remove it"),
    "unknown-exchange-type": Kind("skipped", "use direct, fanout, headers or topic"),
    "unknown-queue-type": Kind("skipped", "use classic or quorum"),
    "exclusive-queue": Kind("skipped", "let the client that owns it declare it"),
    "reserved-name": Kind("skipped", "choose a name that does not begin with amq."),
    "predeclared-exchange": Kind("skipped", "remove it: every vhost has this exchange"),
    "default-exchange-binding": Kind("skipped", "remove it: every queue has this binding"),
    "duplicate": Kind("skipped", "remove the second declaration"),
    "binding-of-skipped": Kind("skipped", "see the finding about that exchange or queue"),
    "other-vhost": Kind("skipped", "give each vhost a scenario of its own"),
    "unsupported-parameter": Kind("skipped", _NOT_HERE),
    "more-skipped": Kind("skipped", "remove or correct the listed items first"),
    "routing-key-without-exchange": Kind("warning", "set a dead-letter exchange as well"),
    "missing-dead-letter-exchange": Kind("warning", "declare the exchange, or correct the name"),
    "unbound-dead-letter-exchange": Kind("warning", "bind a queue to the exchange"),
    "unrouted-dead-letters": Kind(
        "warning",
        "bind a queue with a key that matches, or set x-dead-letter-routing-key to a bound key",
    ),
    "missing-alternate-exchange": Kind("warning", "declare the exchange, or correct the name"),
    "unbound-alternate-exchange": Kind("warning", "bind a queue to the exchange"),
    "unrouted-rejections": Kind("warning", "bind a queue with a key that matches"),
    "useless-alternate-exchange": Kind("warning", "name an exchange with bindings of its own"),
    "idle-exchange": Kind("warning", "bind a queue to it, or remove it"),
    "unreachable-queue": Kind("warning", "bind it to an exchange, if anything should reach it"),
    "dead-letter-cycle": Kind("warning", "give one of the queues another dead-letter target"),
    "alternate-exchange-cycle": Kind("warning", "give one of the queues another alternate"),
    "refusing-target": Kind(
        "warning", "let the target drop its oldest messages, or raise its limit"
    ),
    "setting-without-effect": Kind("warning", "remove the setting, or add what it needs"),
    "policy-matches-nothing": Kind("warning", "correct the pattern or apply-to, or remove it"),
    "policy-never-applies": Kind("warning", "raise its priority, or remove it"),
    "policy-tie": Kind("warning", "give the policies different priorities"),
}
"""Every code, in the order of the documentation."""
