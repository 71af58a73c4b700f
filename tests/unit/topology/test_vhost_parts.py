from topology.definitions.load import part_of

CLUSTER = {
    "rabbit_version": "4.0.5",
    "vhosts": [{"name": "a"}, {"name": "b"}, "no vhost"],
    "users": [{"name": "u"}],
    "queues": [{"name": "q1", "vhost": "a"}, {"name": "q2", "vhost": "b"}, "no queue"],
}


def test_a_vhost_gets_its_own_objects_and_those_of_no_vhost():
    assert part_of(CLUSTER, "a", single=False) == {
        "rabbit_version": "4.0.5",
        "users": [{"name": "u"}],
        "queues": [{"name": "q1", "vhost": "a"}, "no queue"],
        "vhosts": [{"name": "a"}],
    }


def test_the_document_of_a_single_vhost_is_wholly_its_own():
    document = {"queues": [{"name": "q1"}, {"name": "q2", "vhost": "elsewhere"}]}

    assert part_of(document, "a", single=True) == document
