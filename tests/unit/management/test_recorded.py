"""What RabbitMQ 4.0.5 answered to a long conversation, and what is answered here."""

import json
import re
from html import unescape
from typing import Any, Final

from starlette.testclient import TestClient

from streaming.management.formats import NODE
from tests.management_api import Api
from tests.management_on_log import OnLog
from tests.recordings.management import conversation, headers_of

_ORACLE: Final = "oracle-5640@localhost"

_VARIES: Final = re.compile(
    r"messages?(_(ready|unack|bytes|paged|persist|ram|stats|details).*)?"
    r"|churn_rates|cluster_name|garbage_collection|idle_since|memory|password_hash"
    r"|reductions.*|user_who_performed_action|consumer_capacity"
    r"|send_oct.*|recv_oct.*|original_cluster_name"
)
"""Members that RabbitMQ alone has, or that differ from run to run."""

_LATE: Final = ("policy", "operator_policy", "effective_policy_definition")
"""Members that RabbitMQ shows after a while: nothing in them says nothing."""

_FAILS = "RabbitMQ fails inside (500)"
_PATTERN = "patterns are of another library, which has its own words"

_DIFFERENT: Final = {
    'PUT vhost-limits/rec/max-queues {"value":-5}': "RabbitMQ takes any negative limit for none",
    'PUT vhosts/rec2 {"defaultqueuetype": "nosuch"}': _FAILS,
    "GET bindings/rec/e/mg-x/z/mg-q": _FAILS,
    'POST exchanges/rec/amq.default/publish {"properties": [], "routing_key": "mg-q", '
    '"payload": "x", "payload_encoding": "string"}': _FAILS,
    'POST queues/rec/mg-q/get {"count": 5, "ackmode": "foo", "encoding": "auto"}': _FAILS,
    'POST definitions/rec {"queues": 5}': _FAILS,
    "GET global-parameters": "the id of the cluster is another one",
    "GET cluster-name": "the cluster has another name",
    'PUT permissions/rec/mg-a {"configure": "(", "write": ".*", "read": ".*"}': _PATTERN,
    'PUT topic-permissions/rec/mg-a {"exchange": "amq.topic", "write": "(", "read": ".*"}': (
        _PATTERN
    ),
    'PUT policies/rec/p2 {"pattern": "(", "definition": {"max-length": 5}}': _PATTERN,
    'POST definitions {"policies": [{"vhost": "rec", "name": "p9", "pattern": "(", '
    '"definition": {"max-length": 1}}]}': _PATTERN,
    'PUT queues/rec/mg-q6 {"arguments": {"x-queue-type": "stream"}}': "there are no streams",
    'POST definitions {"exchanges": [{"name": "x", "vhost": "rec", "durable": true, '
    '"auto_delete": false, "internal": false, "type": "nosuch", "arguments": {}}]}': (
        "an import skips what is not supported"
    ),
    "GET queues/rec?lengths_age=60&lengths_incr=5&columns=messages_details": (
        "RabbitMQ knows no rates of a queue that is new"
    ),
    "GET queues/rec?disable_stats=true&enable_queue_totals=true": (
        "RabbitMQ does not say then whether a quorum queue is exclusive"
    ),
    "GET queues?page=1&name=nosuchname": "other vhosts have queues too",
}


def test_the_conversation_is_answered_as_by_rabbitmq(client, api):
    _compare(client, api, _DIFFERENT)


def test_a_log_answers_as_memory_does_but_has_its_vhost_already():
    on_log = OnLog(vhost="rec")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    on_log.api.put("permissions/rec/guest", everything)
    different = _DIFFERENT | {
        "PUT vhosts/rec": "it is there already",
        "GET health/checks/protocol-listener/amqp091": "no port is open in this test",
    }

    _compare(on_log.client, on_log.api, different)


def _compare(client: TestClient, api: Api, different: dict[str, str]) -> None:
    api.put("users/plain", {"password": "plain", "tags": ""})
    differences = {}
    for entry in conversation():
        body = entry.get("body")
        response = client.request(
            entry["method"],
            f"/api/{entry['path']}",
            headers=headers_of(entry),
            content=None if body is None else body.encode(),
        )
        answer = response.json() if response.content else None
        recorded = [entry["status"], _comparable(entry.get("answer"))]
        ours = [response.status_code, _comparable(answer if "answer" in entry else None)]
        if not _has(ours, recorded):
            differences[f"{entry['method']} {entry['path']} {body or ''}".strip()] = recorded, ours

    assert differences.keys() == different.keys(), [
        f"{name}: {differences.get(name)}" for name in differences.keys() ^ different.keys()
    ]


def _comparable(answer: Any) -> Any:
    """An answer without what varies; lists in an order that follows from what is in them."""
    match answer:
        case dict():
            return {
                name.replace(_ORACLE, NODE): _comparable(value)
                for name, value in answer.items()
                if not (_VARIES.fullmatch(name) or (name in _LATE and not value))
            }
        case list():
            return sorted(map(_comparable, answer), key=_place)
        case str():
            return unescape(answer).replace(_ORACLE, NODE)
        case _:
            return answer


def _place(item: Any) -> str:
    names = [item.get("name"), item.get("component")] if isinstance(item, dict) else []
    return json.dumps([*names, item])


def _has(ours: Any, recorded: Any) -> bool:
    """Whether an answer has all that was recorded."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return all(name in ours and _has(ours[name], value) for name, value in recorded.items())
    if isinstance(recorded, list) and isinstance(ours, list):
        return len(recorded) == len(ours) and all(map(_has, ours, recorded))
    return bool(recorded == ours)
