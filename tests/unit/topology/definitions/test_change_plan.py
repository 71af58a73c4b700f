"""The changes of an import, object by object."""

from topology.declarations import Binding, Definitions, Exchange, Permission, Policy, Queue
from topology.definitions.change_plan import Change, declared_as, plan_import, what_differs

LIVE = Definitions(
    exchanges=(Exchange("x", "topic"),),
    queues=(Queue("q", arguments={"x-max-length": 5}),),
    bindings=(Binding("x", "q", routing_key="a"),),
    policies=(Policy("p", "^q", {"max-length": 1}),),
    permissions=(Permission("ann", ".*", ".*", ".*"),),
)


def test_existing_objects_stay_unchanged():
    effects = {change.effect for change in plan_import(LIVE, LIVE, "/")}

    assert effects == {"same"}


def test_every_effect_is_listed():
    wanted = Definitions(
        exchanges=(Exchange("x", "direct"), Exchange("new", "fanout")),
        queues=(Queue("q", durable=False, arguments={"x-max-length": 5}), Queue("r")),
        bindings=(Binding("x", "q", routing_key="b"),),
        policies=(Policy("p", "^q", {"max-length": 2}),),
        permissions=(Permission("bob", "", "", ""),),
    )

    inequivalent = "PRECONDITION_FAILED - inequivalent arg"
    assert plan_import(LIVE, wanted, "/") == [
        Change("create", "permission", "bob"),
        Change("replace", "policy", "p", "max-length 1 -> 2"),
        Change(
            "conflict",
            "exchange",
            "x",
            f"{inequivalent} 'type' for exchange 'x' in vhost '/': "
            "received 'direct' but current is 'topic'",
        ),
        Change("create", "exchange", "new"),
        Change(
            "conflict",
            "queue",
            "q",
            f"{inequivalent} 'durable' for queue 'q' in vhost '/': "
            "received 'false' but current is 'true'",
        ),
        Change("create", "queue", "r"),
        Change("create", "binding", "'x' -> queue 'q' with 'b'"),
        Change("absent", "permission", "ann", "not in the document, and stays"),
        Change("absent", "binding", "'x' -> queue 'q' with 'a'", "not in the document, and stays"),
    ]


def test_how_two_policies_differ_is_said_key_by_key():
    before = Definitions(policies=(Policy("p", "^q", {"max-length": 1, "expires": 9}),))
    after = Definitions(policies=(Policy("p", "^q", {"max-length": 2, "message-ttl": 3}),))
    key = ("policy", "p")

    assert (
        what_differs(declared_as(before)[key], declared_as(after)[key])
        == "max-length 1 -> 2; without expires 9; with message-ttl 3"
    )


def test_how_every_object_is_declared_is_found_by_kind_and_name():
    assert [key for key in declared_as(LIVE) if key[0] != "exchange" or key[1] == "x"] == [
        ("permission", "ann"),
        ("policy", "p"),
        ("exchange", "x"),
        ("queue", "q"),
        ("binding", "'x' -> queue 'q' with 'a'"),
    ]


def test_a_binding_is_named_by_its_ends_its_key_and_its_arguments():
    bindings = (
        Binding("x", "y", "exchange"),
        Binding("x", "q", routing_key="a", arguments={"x-match": "any"}),
        Binding("x", "q", arguments={"kind": 1}),
    )
    wanted = Definitions(exchanges=(Exchange("y", "fanout"),), bindings=bindings)

    assert [one.name for one in plan_import(LIVE, wanted, "/") if one.kind == "binding"] == [
        "'x' -> exchange 'y'",
        "'x' -> queue 'q' with 'a' and {'x-match': 'any'}",
        "'x' -> queue 'q' and {'kind': 1}",
        "'x' -> queue 'q' with 'a'",
    ]
