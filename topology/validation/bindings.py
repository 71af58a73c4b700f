"""What bindings may ask of the exchange that they leave."""

from topology.declarations import Binding
from topology.erlang_terms import erlang_term
from topology.routing.headers import X_MATCH
from topology.routing.topic import split_words
from topology.values import amqp_type

MOST_HASHES = 10
"""`#` in one binding key of a topic exchange: more only make matching slow."""


def x_match_complaint(binding: Binding) -> str | None:
    """RabbitMQ's complaint about a headers binding's `x-match` (R-HDR-8)."""
    if "x-match" not in binding.arguments:
        return None
    x_match = binding.arguments["x-match"]
    if not isinstance(x_match, str):
        return (
            f"Invalid x-match field type {amqp_type(x_match)} (value {erlang_term(x_match)});"
            " expected longstr"
        )
    if x_match not in X_MATCH:
        return (
            f"Invalid x-match field value {erlang_term(x_match)};"
            " expected all, any, all-with-x, or any-with-x"
        )
    return None


def hashes_complaint(binding: Binding) -> str | None:
    """The complaint about a topic binding key with too many `#`."""
    hashes = split_words(binding.routing_key).count("#")
    if hashes <= MOST_HASHES:
        return None
    return f"binding key '{binding.routing_key}' has {hashes} '#', more than {MOST_HASHES}"
