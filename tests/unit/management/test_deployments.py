import pytest


def test_a_deployment_is_noted_by_whoever_may_set_policies(api, broker):
    api.put("users/deploy", {"password": "p", "tags": "policymaker"})
    api.put("permissions/%2F/deploy", {"configure": "", "write": "", "read": ""})
    api.put("users/reader", {"password": "p", "tags": "management"})
    api.put("permissions/%2F/reader", {"configure": "", "write": "", "read": ""})
    api.put("queues/%2F/work", {})
    seen = []
    broker.server.vhosts["/"].watchers.append(lambda events: seen.extend(events.details.values()))
    body = {"version": "2.4.1", "queues": ["work"], "reason": "faster"}

    assert api.put("deployments/%2F/pay%20er", body, ("deploy", "p")) == 201
    assert api.refusal("PUT", "deployments/%2F/x", body, ("reader", "p"))[0] == 401

    [deployed] = [one for one in seen if one.get("what") == "deployed"]
    assert deployed == {
        "what": "deployed",
        "name": "pay er",
        "version": "2.4.1",
        "queues": ["work"],
        "reason": "faster",
    }


@pytest.mark.parametrize(
    ("service", "body", "status", "reason"),
    [
        ("x", {}, 400, "[{key_missing,version}]"),
        ("x", {"version": "1", "queues": "work"}, 400, "queues"),
        ("x", {"version": "1", "queues": ["wrok"]}, 404, "no queue 'wrok' in vhost '/'"),
        ("x", {"version": "1", "reason": 5}, 400, "not_a_string"),
        ("x", {"version": " "}, 400, "the version of a deployment must be text, not ' '"),
        ("s" * 256, {"version": "1"}, 400, "has 256 bytes, more than 255"),
    ],
)
def test_nonsense_is_refused_in_words(api, service, body, status, reason):
    found = api.refusal("PUT", f"deployments/%2F/{service}", body)

    assert found[0] == status
    assert reason in str(found[2])
