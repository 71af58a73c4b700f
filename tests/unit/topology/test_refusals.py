"""Refusals that do not depend on arguments."""

from topology.refusals import (
    Refusal,
    exchange_in_use,
    exclusive_queue,
    internal_exchange,
    no_exchange,
    no_queue,
    queue_in_use,
    queue_not_empty,
    refuse_exchange_deletion,
    unconditional,
)


def precondition(text):
    return Refusal(406, f"PRECONDITION_FAILED - {text}")


def test_refusals_without_arguments_have_rabbitmqs_text():
    locked = (
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'."
        " It could be originally declared on another connection or the exclusive property value"
        " does not match that of the original declaration."
    )

    assert no_exchange("x", "/") == Refusal(404, "NOT_FOUND - no exchange 'x' in vhost '/'")
    assert no_queue("q", "/") == Refusal(404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert internal_exchange("x", "/") == Refusal(
        403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
    )
    assert exclusive_queue("q", "/") == Refusal(405, locked)
    assert exchange_in_use("x", "/") == precondition("exchange 'x' in vhost '/' in use")
    assert queue_in_use("q", "/") == precondition("queue 'q' in vhost '/' in use")
    assert queue_not_empty("q", "/") == precondition("queue 'q' in vhost '/' not empty")


def test_a_quorum_queue_is_not_deleted_on_a_condition():
    assert unconditional("q", "/", "if-unused") == (
        "cannot delete queue 'q' in vhost '/'. queue.delete operations with if-unused flag set are"
        " not supported by quorum queues"
    )


def test_predeclared_exchanges_cannot_be_deleted():
    assert refuse_exchange_deletion("x", "/") is None
    assert refuse_exchange_deletion("", "/") == Refusal(
        403, "ACCESS_REFUSED - operation not permitted on the default exchange"
    )
    assert refuse_exchange_deletion("amq.topic", "/") == Refusal(
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    )
