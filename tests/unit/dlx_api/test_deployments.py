"""A deployment is noted by those who may set policies, and nonsense is refused."""

import pytest

BODY = {"version": "2.4.1", "queues": ["work"], "reason": "faster"}


def test_a_deployment_is_noted_by_whoever_may_set_policies(memory, broker):
    for name, tags in (("deploy", "policymaker"), ("reader", "management")):
        memory.ask("PUT", f"users/{name}", {"password": "p", "tags": tags})
        rights = {"configure": "", "write": "", "read": ""}
        memory.ask("PUT", f"permissions/%2F/{name}", rights)
    memory.ask("PUT", "queues/%2F/work", {})
    seen = []
    broker.server.vhosts["/"].watchers.append(lambda events: seen.extend(events.details.values()))

    noted = memory.answer("PUT", "deployments/%2F/pay%20er", BODY, ("deploy", "p"), {})
    refused = memory.refusal("deployments/%2F/x", ("reader", "p"), method="PUT", body=BODY)

    assert noted == {"service": "pay er", **BODY}
    assert refused[0] == 401
    [deployed] = [one for one in seen if one.get("what") == "deployed"]
    assert deployed == {"what": "deployed", "name": "pay er", **BODY}


@pytest.mark.parametrize(
    ("service", "body", "status", "reason"),
    [
        ("x", {}, 400, "missing required field `version`"),
        ("x", {"version": "1", "queues": "work"}, 400, "queues"),
        ("x", {"version": "1", "queues": ["wrok"]}, 404, "no queue 'wrok' in vhost '/'"),
        ("x", {"version": "1", "reason": 5}, 400, "reason"),
        ("x", {"version": " "}, 400, "the version of a deployment must be text, not ' '"),
        ("s" * 256, {"version": "1"}, 400, "has 256 bytes, more than 255"),
    ],
)
def test_nonsense_is_refused_in_words(memory, service, body, status, reason):
    found = memory.refusal(f"deployments/%2F/{service}", method="PUT", body=body)

    assert found[0] == status
    assert reason in found[2]
