"""Sessions in which the management API changes what clients of AMQP use at the same time."""

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

import httpx2

from tests.sessions.maker import TypedQueuesMaker
from tests.sessions.steps import CONNECTIONS, EXCHANGES, KEYS, PATTERNS, QUEUES, Step

Ask = Callable[[str, str, Any], tuple[int, Any]]
"""Makes a request: its method, its path below `/api/`, and its document, if it has one.

It returns the status and the document of the answer.
"""

POLICIES: Final = ("p0", "p1")
_KINDS: Final = ("policies", "operator-policies")
_COLUMNS: Final = {
    "queues": "name,type,durable,auto_delete,exclusive,arguments",
    "exchanges": "name,type,durable,auto_delete,internal,arguments",
}
_UNSTEADY: Final = ("vhost", "payload_bytes", "user_who_performed_action")
"""Members of answers that are not compared; nor is all of a `properties_key` that depends on the
width of a number."""

_BROKEN: Final = re.compile(r",\n +")
"""Where RabbitMQ breaks the line of a long term."""


def http_api(url: str) -> Ask:
    """Makes requests to a server, whose URL has the user and the password."""
    client = httpx2.Client(base_url=url, trust_env=False, timeout=30)

    def ask(method: str, path: str, document: Any) -> tuple[int, Any]:
        given = {} if document is None else {"json": document}
        answer = client.request(method, f"/api/{path}", **given)
        return answer.status_code, answer.json() if answer.content else None

    return ask


def shown_answer(status: int, answer: Any) -> str:
    """An answer as text, without what differs from broker to broker."""
    return f"{status} {json.dumps(_steady(answer), sort_keys=True)}"


def _steady(answer: Any) -> Any:
    match answer:
        case dict():
            steady = {
                name: _steady(value) for name, value in answer.items() if name not in _UNSTEADY
            }
            values = (steady.get("arguments") or {}).values()
            if "properties_key" in steady and any(isinstance(each, int) for each in values):
                steady["properties_key"] = steady["properties_key"].rpartition("~")[0]
            return steady
        case list():
            return [_steady(each) for each in answer]
        case str():
            return _BROKEN.sub(",", answer)
    return answer


def forget_policies(ask: Ask, vhost: str) -> None:
    """Delete the policies that sessions set."""
    for kind in _KINDS:
        for name in POLICIES:
            ask("DELETE", f"{kind}/{vhost}/{name}", None)


class ManagedMaker(TypedQueuesMaker):
    """Policies, queues, exchanges, bindings, messages and connections by the management API."""

    def __init__(self, chance: random.Random, without: frozenset[str]) -> None:
        super().__init__(chance, without)
        self._weights |= {
            self.put_policy: 24,
            self.delete_policy: 8,
            self.http_publish: 16,
            self.http_get: 10,
            self.http_purge: 4,
            self.http_queue: 6,
            self.http_exchange: 4,
            self.http_binding: 6,
            self.http_look: 6,
            self.http_close: 2,
            self.consume: 14,
        }

    def _arguments_of_queue(self) -> dict[str, Any]:
        if self._seldom(0.5):
            return {}
        if self._seldom(0.3):
            return {"x-queue-type": "quorum"}
        return super()._arguments_of_queue()

    def qos(self) -> Step:
        """A limit; quorum queues refuse one that is global."""
        step = super().qos()
        step.arguments["global_"] = False
        return step

    def put_policy(self) -> Step:
        """A policy, or one of the operator, that changes what queues do with their messages."""
        values: dict[str, Any] = {
            "max-length": self._pick((0, 1, 2, 3)),
            "max-length-bytes": self._pick((0, 5, 12)),
            "message-ttl": self._pick((0, 100_000)),
            "expires": 100_000,
            "delivery-limit": self._pick((0, 1, 2)),
        }
        kind = self._pick((*["policies"] * 3, "operator-policies"))
        if kind == "policies" or self._seldom(0.05):
            values |= {
                "overflow": self._pick(("drop-head", "reject-publish", "reject-publish-dlx")),
                "dead-letter-exchange": self._pick(("", *EXCHANGES, "amq.fanout")),
                "dead-letter-routing-key": self._pick(QUEUES),
                "dead-letter-strategy": self._pick(("at-most-once", "at-least-once")),
                "alternate-exchange": self._pick((*EXCHANGES, "amq.fanout")),
            }
        names = self._chance.sample(sorted(values), self._chance.randrange(1, 4))
        document = {
            "pattern": self._pick(("", "^q", "^q0$", "q[12]", "^e", "^(q0|e0)$")),
            "definition": {name: values[name] for name in names},
            "priority": self._pick((0, 1, 2)),
            "apply-to": self._pick(
                ("all", "queues", "queues", "exchanges", "classic_queues", "quorum_queues")
            ),
        }
        if document["apply-to"] == "exchanges" and self._seldom(0.8):
            document["definition"] = {"alternate-exchange": self._pick(EXCHANGES)}
        name = self._pick(POLICIES)
        document["priority"] += 5 * POLICIES.index(name)  # of equals, RabbitMQ takes any
        return self._http("PUT", f"{kind}/{{vhost}}/{name}", document)

    def delete_policy(self) -> Step:
        """The end of a policy."""
        return self._http("DELETE", f"{self._pick(_KINDS)}/{{vhost}}/{self._pick(POLICIES)}")

    def http_publish(self) -> Step:
        """A message by the API."""
        exchange = self._pick(("amq.default", "amq.default", *EXCHANGES, "amq.topic"))
        self._number += 1
        properties: dict[str, Any] = {}
        if self._seldom(0.3):
            properties["delivery_mode"] = self._pick((1, 2))
        if self._seldom(0.2):
            properties["headers"] = {"kind": self._pick((1, "x"))}
        if self._seldom(0.1):
            properties["expiration"] = self._pick(("0", "100000", "x"))
        keys = QUEUES if exchange == "amq.default" else KEYS
        document = {
            "properties": properties,
            "routing_key": self._pick(keys),
            "payload": f"{self._number:05}",
            "payload_encoding": "string",
        }
        return self._http("POST", f"exchanges/{{vhost}}/{exchange}/publish", document)

    def http_get(self) -> Step:
        """Messages by the API, which return or do not."""
        modes = ("ack_requeue_true", "reject_requeue_true", "ack_requeue_false")
        document = {
            "count": self._pick((1, 1, 2, 5)),
            "ackmode": self._pick((*modes, "reject_requeue_false")),
            "encoding": self._pick(("auto", "base64")),
        }
        return self._http("POST", f"queues/{{vhost}}/{self._pick(QUEUES)}/get", document)

    def http_purge(self) -> Step:
        """Empty a queue by the API."""
        return self._http("DELETE", f"queues/{{vhost}}/{self._pick(QUEUES)}/contents")

    def http_queue(self) -> Step:
        """Declare or delete a queue by the API."""
        path = f"queues/{{vhost}}/{self._pick(QUEUES)}"
        if self._seldom(0.5):
            condition = self._pick(("", "", "?if-unused=true", "?if-empty=true"))
            return self._http("DELETE", path + condition)
        document = {
            "durable": self._seldom(0.7),
            "auto_delete": self._seldom(0.2),
            "arguments": self._queue_arguments(),
        }
        return self._http("PUT", path, document)

    def http_exchange(self) -> Step:
        """Declare or delete an exchange by the API."""
        path = f"exchanges/{{vhost}}/{self._pick(EXCHANGES)}"
        if self._seldom(0.5):
            return self._http("DELETE", path + self._pick(("", "?if-unused=true")))
        document = {
            "type": self._pick(("direct", "fanout", "topic", "headers", "x-other")),
            "durable": self._seldom(0.5),
            "auto_delete": self._seldom(0.2),
            "internal": self._seldom(0.1),
            "arguments": {},
        }
        return self._http("PUT", path, document)

    def http_binding(self) -> Step:
        """Bind by the API."""
        to_exchange = self._seldom(0.3)
        destination = f"e/{self._pick(EXCHANGES)}" if to_exchange else f"q/{self._pick(QUEUES)}"
        path = f"bindings/{{vhost}}/e/{self._pick((*EXCHANGES, 'amq.topic'))}/{destination}"
        if self._seldom(0.3):
            return self._http("DELETE", f"{path}/{self._pick(('a', 'a.b', '~'))}")
        document = {"routing_key": self._pick(PATTERNS), "arguments": {}}
        return self._http("POST", path, document)

    def http_look(self) -> Step:
        """Ask what there is."""
        kind = self._pick(("queues", "exchanges"))
        name = self._pick(QUEUES if kind == "queues" else EXCHANGES)
        if self._seldom(0.4):
            return self._http("GET", f"{kind}/{{vhost}}/{name}?columns={_COLUMNS[kind]}")
        if kind == "queues":
            return self._http("GET", f"queues/{{vhost}}/{name}/bindings?sort=properties_key")
        return self._http("GET", f"{self._pick(_KINDS)}/{{vhost}}")

    def http_close(self) -> Step:
        """End a connection of a client by the API."""
        return self._step("end_connection", which=self._pick(CONNECTIONS))

    def _http(self, method: str, path: str, document: Any = None) -> Step:
        return self._step("http", method=method, path=path, document=document)
