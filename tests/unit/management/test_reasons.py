"""Reasons of refusals, as RabbitMQ 4.0.5 gives them."""

import pytest

from streaming.amqp import methods as m
from tests.amqp_client import RawClient

GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


def test_a_get_tells_why_its_channel_was_closed(api, broker):
    RawClient(broker).ask(m.QueueDeclare(queue="mine", exclusive=True))

    status, error, reason = api.refusal("POST", "queues/%2F/mine/get", GET)

    assert (status, error) == (400, "bad_request")
    assert reason.startswith(
        "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'."
    )


def test_a_get_without_permission_names_the_queue(api):
    api.put("users/bob", {"password": "bob", "tags": "management"})
    api.put("permissions/%2F/bob", {"configure": "", "write": "", "read": "^other$"})
    api.put("queues/%2F/q")

    assert api.refusal("POST", "queues/%2F/q/get", GET, user=("bob", "bob")) == (
        401,
        "not_authorised",
        "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'bob'",
    )


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("policies", '&lt;&lt;"x"&gt;&gt;'), ("operator-policies", '<<"x">>')],
)
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"definition": {"max-length": "x"}}, "{} is not a valid maximum length"),
        (
            {"definition": {"max-length": 1}, "priority": "x"},
            "priority should be a number, actually was {}",
        ),
    ],
)
def test_only_reasons_of_ordinary_policies_are_escaped_for_html(api, kind, shown, policy, words):
    refusal = api.refusal("PUT", f"{kind}/%2F/p", {"pattern": "q", **policy})

    assert refusal == (400, "bad_request", f"Validation failed\n\n{words.format(shown)}\n")


@pytest.mark.parametrize("name", ["other", "max-queues"])
def test_limits_of_a_vhost_as_a_parameter_have_one_name(api, name):
    """RabbitMQ keeps them under any name, ends with 500, and no limit is in force."""
    refusal = api.refusal("PUT", f"parameters/vhost-limits/%2F/{name}", {"value": {}})

    reason = f"Validation failed\n\nthe limits of a vhost are named limits, not {name}\n"
    assert refusal == (400, "bad_request", reason)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("vhost-limits/%2F/max-queues", '<<"x">>'),
        ("parameters/vhost-limits/%2F/limits", '&lt;&lt;"x"&gt;&gt;'),
    ],
)
def test_only_reasons_of_parameters_are_escaped_for_html(api, path, shown):
    value = "x" if path.startswith("vhost") else {"max-queues": "x"}

    _status, _error, reason = api.refusal("PUT", path, {"value": value})

    assert reason == f"Validation failed\n\nmax-queues should be a number, actually was {shown}\n"


def test_the_type_of_the_default_exchange_is_looked_at_before_it_is_refused(api):
    path = "exchanges/%2F/amq.default"

    unknown = api.refusal("PUT", path, {"type": "x-delayed-message"})
    known = api.refusal("PUT", path, {"type": "topic"})

    assert unknown == (400, "bad_request", "unknown exchange type 'x-delayed-message'")
    assert known == (401, "not_authorised", "Access refused.")


@pytest.mark.parametrize(
    ("query", "flag"),
    [
        ("if-unused=true", "if-unused"),
        ("if-empty=true&if-unused=true", "if-unused"),
        ("if-empty=true", "if-empty"),
    ],
)
def test_a_quorum_queue_is_deleted_on_no_condition(api, query, flag):
    api.put("queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})

    assert api.refusal("DELETE", f"queues/%2F/q?{query}") == (
        400,
        "bad_request",
        f"cannot delete queue 'q' in vhost '/'. queue.delete operations with {flag} flag set are "
        "not supported by quorum queues",
    )
    assert api.ask("DELETE", "queues/%2F/q").status_code == 204


def test_a_queue_that_is_declared_as_exclusive_is_only_not_durable(api):
    """RabbitMQ takes the member from the method of AMQP, but no connection owns the queue."""
    wanted = {"durable": True, "exclusive": True}

    api.put("queues/%2F/q", wanted)

    queue = api.get("queues/%2F/q?columns=durable,exclusive")
    assert queue == {"durable": False, "exclusive": False}
    assert api.refusal("PUT", "queues/%2F/q", {"durable": True}) == (
        400,
        "bad_request",
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is"
        " 'false'",
    )
    quorum = {"arguments": {"x-queue-type": "quorum"}, **wanted}
    assert api.refusal("PUT", "queues/%2F/k", quorum) == (
        400,
        "bad_request",
        "invalid property 'non-durable' for queue 'k' in vhost '/'",
    )
