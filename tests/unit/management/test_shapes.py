"""Bodies whose members have a wrong shape: refused or taken, and never a fault of the server."""

import pytest

_ALL = {"configure": ".*", "write": ".*", "read": ".*"}
_POLICY = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
_QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
_LIMITS = {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 9}}
_BODIES = [
    ("PUT", "vhosts/v", {"description": "", "tags": "a", "default_queue_type": "classic"}),
    ("PUT", "users/u", {"password": "u", "tags": "management", "limits": {}}),
    ("PUT", "users/u", {"password_hash": "", "hashing_algorithm": "x", "tags": ""}),
    ("POST", "users/bulk-delete", {"users": ["u"]}),
    ("PUT", "permissions/%2F/guest", _ALL),
    ("PUT", "topic-permissions/%2F/guest", {"exchange": "amq.topic", "write": "", "read": ""}),
    ("PUT", "user-limits/guest/max-channels", {"value": 9}),
    ("PUT", "vhost-limits/%2F/max-queues", {"value": 9}),
    ("PUT", "queues/%2F/q", {"durable": True, "auto_delete": False, "arguments": {}}),
    ("POST", "queues/%2F/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("POST", "queues/%2F/q/actions", {"action": "sync"}),
    ("PUT", "exchanges/%2F/x", {"type": "topic", "durable": True, "internal": False}),
    (
        "POST",
        "exchanges/%2F/amq.topic/publish",
        {"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"},
    ),
    ("POST", "bindings/%2F/e/amq.topic/q/q", {"routing_key": "k", "arguments": {}}),
    ("PUT", "policies/%2F/p", _POLICY),
    ("PUT", "operator-policies/%2F/p", _POLICY),
    ("PUT", "parameters/operator_policy/%2F/p", {"value": _POLICY}),
    ("PUT", "parameters/vhost-limits/%2F/limits", {"value": {"max-queues": 9}}),
    ("PUT", "global-parameters/g", {"value": 1}),
    ("PUT", "cluster-name", {"name": "c"}),
    ("POST", "definitions", {"queues": [_QUEUE], "parameters": [_LIMITS]}),
    ("POST", "definitions/%2F", {"queues": [_QUEUE], "parameters": [_LIMITS]}),
]
_SHAPES = [None, 5, 1.5, "x", "", True, [], [1], [[1]], [{"a": 1}], {}, {"a": 1}, {"a": [None]}]


@pytest.mark.parametrize(("method", "path", "body"), _BODIES)
def test_a_member_of_a_wrong_shape_is_no_fault_of_the_server(api, method, path, body):
    api.put("queues/%2F/q", {"durable": True})
    assert api.ask(method, path, body).status_code in {200, 201, 204, 400}

    for name in body:
        for shape in _SHAPES:
            answer = api.ask(method, path, {**body, name: shape})
            assert answer.status_code < 500, (name, shape, answer.text)
