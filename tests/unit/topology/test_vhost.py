"""A vhost: built from definitions, changed step by step, with the settings that result."""

import pytest

from tests.fixtures.steps import lines_run
from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.permissions import Need
from topology.policies import NO_TIMEOUT_MS
from topology.vhost import Vhost

DEFINITIONS = Definitions(
    exchanges=(Exchange("orders"), Exchange("other")),
    queues=(Queue("audit"), Queue("work", exclusive=True)),
    bindings=(Binding("amq.topic", "work", routing_key="#"),),
    policies=(
        Policy("exchanges", "^(orders|amq.topic)$", {"alternate-exchange": "other"}),
        Policy("queues", "^work$", {"message-ttl": 5000}),
    ),
    operator_policies=(Policy("limit", "", {"message-ttl": 3000}, apply_to="queues"),),
    permissions=(Permission("ann", ".*", "", ""),),
)


@pytest.fixture
def vhost():
    made = Vhost()
    made.add_queue(Queue("work"))
    return made


def max_length(vhost):
    return vhost.settings(vhost.queues["work"]).max_length


def a_policy(max_length):
    return Policy("short", "^work$", {"max-length": max_length}, 0, "queues")


def test_policies_apply_to_queues_and_all_exchanges():
    vhost = Vhost.from_definitions(DEFINITIONS)

    alternates = {
        name: vhost.router.alternate_of(name) for name in ("orders", "amq.topic", "other")
    }
    ttls = {name: settings.message_ttl_ms for name, settings in vhost.all_settings().items()}
    assert alternates == {"orders": "other", "amq.topic": "other", "other": None}
    assert ttls == {"work": 3000, "audit": 3000}


def test_a_vhost_returns_the_definitions_it_was_built_from():
    vhost = Vhost.from_definitions(DEFINITIONS)

    again = Vhost.from_definitions(vhost.definitions())

    assert again.definitions() == vhost.definitions()
    assert all(each in vhost.definitions().exchanges for each in DEFINITIONS.exchanges)
    assert vhost.definitions().queues == DEFINITIONS.queues
    assert vhost.definitions().bindings == DEFINITIONS.bindings
    assert vhost.definitions().policies == DEFINITIONS.policies
    assert vhost.definitions().operator_policies == DEFINITIONS.operator_policies
    assert vhost.definitions().permissions == DEFINITIONS.permissions
    assert vhost.exclusive_queues == {"work"}


def test_a_predeclared_exchange_may_be_among_the_definitions():
    definitions = Definitions(exchanges=(Exchange("amq.topic", "topic"),))

    assert "amq.topic" in Vhost.from_definitions(definitions).router.exchanges


@pytest.mark.parametrize(("compat", "limit"), [("4.0", 20), ("3.10", None)])
def test_the_default_delivery_limit_is_that_of_the_chosen_version(compat, limit):
    definitions = Definitions(queues=(Queue("q", arguments={"x-queue-type": "quorum"}),))

    vhost = Vhost.from_definitions(definitions, compat)

    assert vhost.all_settings()["q"].delivery_limit == limit


def test_queues_keep_their_numbers_and_no_number_is_reused():
    vhost = Vhost.from_definitions(DEFINITIONS, queue_numbers={"audit": 7, "work": 2})

    numbers = [vhost.add_queue(Queue("next"))]
    vhost.remove_queue("next")
    numbers.append(vhost.add_queue(Queue("last")))

    assert vhost.queue_numbers == {"audit": 7, "work": 2, "last": 9}
    assert vhost.queue_names == {7: "audit", 2: "work", 9: "last"}
    assert numbers == [8, 9]


def test_a_deleted_queue_leaves_only_its_number():
    vhost = Vhost.from_definitions(DEFINITIONS)
    empty = Vhost.from_definitions(DEFINITIONS)

    removed = vhost.remove_queue("work")

    assert removed == list(DEFINITIONS.bindings)
    assert (vhost.queues, vhost.exclusive_queues) == ({"audit": Queue("audit")}, set())
    assert vhost.router.bindings.all() == []
    assert vhost.next_queue_number == empty.next_queue_number


@pytest.mark.parametrize("operator", [False, True])
def test_a_changed_policy_changes_the_settings_at_once(vhost, operator):
    seen = [max_length(vhost)]
    for change in (5, 7):
        vhost.policies.set(a_policy(change), operator=operator)
        seen.append(max_length(vhost))
    vhost.policies.clear("short", operator=operator)

    assert [*seen, max_length(vhost)] == [None, 5, 7, None]


def test_a_recreated_queue_has_its_own_settings(vhost):
    seen = [max_length(vhost)]
    vhost.remove_queue("work")

    vhost.add_queue(Queue("work", arguments={"x-max-length": 3}))

    assert [*seen, max_length(vhost)] == [None, 3]


def test_another_default_delivery_limit_changes_the_settings_at_once(vhost):
    safe = Queue("safe", arguments={"x-queue-type": "quorum"})
    vhost.add_queue(safe)
    before = vhost.settings(safe).delivery_limit

    vhost.default_delivery_limit = 3

    assert (before, vhost.settings(safe).delivery_limit) == (20, 3)


def test_the_settings_of_a_declared_queue_are_cached(vhost):
    queue = vhost.queues["work"]

    assert vhost.settings(queue) is vhost.settings(queue)


def test_the_settings_of_a_queue_that_is_not_declared_are_not_cached(vhost):
    refused = Queue("work", arguments={"x-max-length": 3})

    assert vhost.settings(refused) is not vhost.settings(refused)
    assert vhost.settings(refused).max_length == 3
    assert max_length(vhost) is None


def test_policies_load_in_one_sort():
    def lines(count):
        policies = tuple(Policy(f"p{n}", f"^q{n}$", {"max-length": n}, n) for n in range(count))
        definitions = Definitions(queues=(Queue("q7"),), policies=policies)
        return lines_run(lambda: Vhost.from_definitions(definitions))

    assert lines(1_000) < 3 * lines(500)


CONFIGURE: list[Need] = [("configure", "queue", "q")]


def test_permissions_are_checked_only_if_enforced():
    vhost = Vhost.from_definitions(Definitions(permissions=(Permission("ann", "^x", "", ""),)))

    refusals = [vhost.refuse_access(user, CONFIGURE, "/") for user in ("ann", "bob", None)]
    vhost.enforce_permissions = False

    assert [refusal and refusal.code for refusal in refusals] == [403, 403, None]
    assert vhost.refuse_access("ann", CONFIGURE, "/") is None
    assert vhost.refuse_administration("ann", "/") is None


def test_administrators_need_permissions_only_if_they_have_some(vhost):
    vhost.administrators = ("ann", "bob")
    vhost.permissions.set(Permission("bob", "", "", ""))

    assert vhost.refuse_access("ann", CONFIGURE, "/") is None
    assert vhost.refuse_access("bob", CONFIGURE, "/") is not None


def test_only_administrators_and_the_operator_change_policies(vhost):
    vhost.administrators = ("ann",)

    refusals = [vhost.refuse_administration(user, "/") for user in ("ann", "bob", None)]

    assert [refusal and refusal.code for refusal in refusals] == [None, 403, None]


def test_the_shortest_consumer_timeout_of_all_queues_follows_changes(vhost):
    def shortest():
        vhost.version += 1  # as the broker does
        return vhost.shortest_timeout_ms()

    first = shortest()
    vhost.add_queue(Queue("slow", arguments={"x-consumer-timeout": 500}))
    with_slow = shortest()
    vhost.add_queue(Queue("quick", arguments={"x-consumer-timeout": 300}))
    with_quick = shortest(), vhost.shortest_timeout_ms()
    vhost.policies.set(Policy("p", "^work$", {"consumer-timeout": 100}))
    with_policy = vhost.shortest_timeout_ms()
    vhost.policies.clear("p")
    vhost.remove_queue("quick")

    assert (first, with_slow, with_quick, with_policy) == (NO_TIMEOUT_MS, 500, (300, 300), 100)
    assert shortest() == 500
