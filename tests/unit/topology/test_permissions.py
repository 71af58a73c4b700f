"""The permissions that each operation needs."""

from typing import Any

import pytest

from topology.declarations import Binding, Exchange, Permission, Queue
from topology.errors import UnsupportedPatternError
from topology.permissions import (
    PermissionTable,
    needs_to_bind,
    needs_to_declare_exchange,
    needs_to_declare_queue,
)
from topology.refusals import Refusal


def a_table(*permissions):
    table = PermissionTable()
    for permission in permissions:
        table.set(permission)
    return table


def test_patterns_are_searched_and_the_empty_one_grants_nothing():
    table = a_table(Permission("app", configure="^app-", write="orders", read=""))

    assert table.allows("app", "configure", "app-queue")
    assert not table.allows("app", "configure", "my-app-queue")
    assert table.allows("app", "write", "all-orders-here")
    assert not table.allows("app", "read", "app-queue")


def test_only_the_operator_and_users_with_permissions_are_allowed():
    table = a_table(Permission("app", ".*", ".*", ".*"))

    assert not table.allows("guest", "read", "q")
    assert table.allows(None, "configure", "q")
    assert table.allows("app", "read", "q")
    assert table.clear("app")
    assert not table.clear("app")
    assert not table.allows("app", "read", "q")


def test_the_default_exchange_has_rabbitmqs_name_in_permissions():
    table = a_table(Permission("app", "", "^amq.default$", ""), Permission("none", "", "^$", ""))

    assert table.allows("app", "write", "")
    assert not table.allows("none", "write", "")
    assert table.refuse("none", [("write", "exchange", "")], "/") == Refusal(
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/'"
        " refused for user 'none'",
    )


def test_the_first_missing_permission_is_refused():
    table = a_table(Permission("app", "^q$", "^dlx$", "^r$"))
    needs = needs_to_declare_queue(Queue("q", arguments={"x-dead-letter-exchange": "dlx"}))

    assert table.refuse("app", needs, "shop") == Refusal(
        403, "ACCESS_REFUSED - read access to queue 'q' in vhost 'shop' refused for user 'app'"
    )
    assert table.refuse(None, needs, "shop") is None
    table.set(Permission("app", "^q$", "^dlx$", "^q$"))
    assert table.refuse("app", needs, "shop") is None


def test_an_alternate_exchange_needs_additional_permissions():
    """Documents 000 and 001."""
    assert needs_to_declare_exchange(Exchange("x")) == [("configure", "exchange", "x")]
    assert needs_to_declare_exchange(Exchange("x", arguments={"alternate-exchange": "ae"})) == [
        ("configure", "exchange", "x"),
        ("read", "exchange", "x"),
        ("write", "exchange", "ae"),
    ]


def test_a_dead_letter_exchange_needs_additional_permissions():
    """Document 002; a queue's own alternate exchange likewise."""
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "", "x-alternate-exchange": "ae"}

    assert needs_to_declare_queue(Queue("q")) == [("configure", "queue", "q")]
    assert needs_to_declare_queue(Queue("q", arguments=arguments)) == [
        ("configure", "queue", "q"),
        ("read", "queue", "q"),
        ("write", "exchange", ""),
        ("read", "queue", "q"),
        ("write", "exchange", "ae"),
    ]


def test_binding_needs_write_to_the_destination_and_read_of_the_source():
    assert needs_to_bind(Binding("x", "y", "exchange")) == [
        ("write", "exchange", "y"),
        ("read", "exchange", "x"),
    ]


def test_an_invalid_pattern_changes_nothing():
    before = Permission("app", ".*", ".*", ".*")
    table = a_table(before)

    with pytest.raises(UnsupportedPatternError):
        table.set(Permission("app", "", "", "("))
    assert table.permissions() == [before]
    assert table.allows("app", "write", "q")
    assert (table.of("app"), table.of("nobody")) == (before, None)
