"""Policies and queues in short form."""

from topology.declarations import Policy, Queue


def a_policy(name="p", definition=None, pattern=".*", priority=0, apply_to="all"):
    return Policy(
        name, pattern, {"max-length": 5} if definition is None else definition, priority, apply_to
    )


def a_queue(name="q", **arguments):
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return Queue(name, arguments=named)


def a_quorum_queue(name="q", **arguments):
    return a_queue(name, queue_type="quorum", **arguments)
