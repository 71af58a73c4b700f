"""Exporting what is declared, in pages that fit into a Kafka record."""

import json
from typing import Any

from streaming.broker import commands
from streaming.broker.handlers import import_export
from streaming.broker.handlers.import_export import PAGE_BYTES
from tests.builders import Broker
from topology.definitions.load import load_definitions
from topology.refusals import Refusal


def pages(broker):
    """All pages, in order."""
    found = [broker.answer(commands.ExportDefinitions())]
    while "next" in found[-1]:
        found.append(broker.answer(commands.ExportDefinitions(first=found[-1]["next"])))
    return found


def document_of(found):
    document: dict[str, list[object]] = {}
    for page in found:
        for section, member in page["objects"]:
            document.setdefault(section, []).append(member)
    return document


def test_an_export_can_be_loaded():
    broker = Broker()
    broker.exchange("x", "topic")
    broker.queue("q", max_length=5)
    broker.bind("x", "q", "a.#")
    broker.policy("p", "^q", {"max-length": 3})

    [page] = pages(broker)

    loaded = load_definitions(document_of([page])).vhosts["/"]
    assert [each.name for each in loaded.exchanges] == ["x"]
    assert [each.arguments for each in loaded.queues] == [{"x-max-length": 5}]
    assert [each.routing_key for each in loaded.bindings] == ["a.#"]
    assert [each.name for each in loaded.policies] == ["p"]
    assert page["skipped"] == []


def test_a_large_topology_is_exported_in_pages_of_one_version():
    broker = Broker()
    for number in range(3 * PAGE_BYTES // 20_000):
        broker.queue(f"q{number:04}", filler="x" * 20_000)

    found = pages(broker)

    assert len(found) > 2
    assert len({page["version"] for page in found}) == 1
    names = [each["name"] for each in document_of(found)["queues"]]
    assert names == sorted(broker.shard.vhost.queues)


def test_an_object_too_large_for_a_page_is_skipped_and_named():
    broker = Broker()
    broker.queue("huge", filler="x" * (PAGE_BYTES + 1))
    broker.queue("small")

    [page] = pages(broker)

    assert page["skipped"] == ["queues: 'huge' is too large"]
    assert [each["name"] for each in document_of([page])["queues"]] == ["small"]


def test_only_administrators_export():
    broker = Broker(enforce_permissions=True, administrators=("root",))

    refusal = broker.refusal(commands.ExportDefinitions(), user="ann")

    assert isinstance(refusal, Refusal)
    assert refusal.code == 403


def test_paging_beyond_the_end_is_an_empty_page():
    page: Any = Broker().answer(commands.ExportDefinitions(first=1000))

    assert page["objects"] == []
    assert "next" not in page


def test_an_export_names_its_vhost_once_and_in_every_object():
    broker = Broker(vhost="shop")
    broker.queue("q")
    broker.policy("p", "^q", {"max-length": 3}, operator=True)

    first: Any = broker.answer(commands.ExportDefinitions())
    second: Any = broker.answer(commands.ExportDefinitions(first=1))

    (section, vhost), *objects = first["objects"]
    assert (section, vhost) == ("vhosts", {"name": "shop"})
    assert [one["vhost"] for _, one in objects] == ["shop"] * len(objects)
    assert second["objects"] == objects[1:]
    assert [one["component"] for section, one in objects if section == "parameters"] == [
        "operator_policy"
    ]


def exported_bytes(broker: Broker, name: str) -> int:
    """The bytes of a queue in an export."""
    page: Any = broker.answer(commands.ExportDefinitions())
    (document,) = [one for _, one in page["objects"][1:] if one["name"] == name]
    return len(json.dumps(document, separators=(",", ":")))


def test_an_object_that_fills_a_page_exactly_does_not_end_it(monkeypatch):
    broker = Broker()
    for name in ("a", "b", "c"):
        broker.queue(name)
    monkeypatch.setattr(import_export, "PAGE_BYTES", exported_bytes(broker, "a"))

    found = pages(broker)

    names = [[one["name"] for section, one in page["objects"]] for page in found]
    assert names == [["/", "a", "b"], ["c"]]
    assert [page["skipped"] for page in found] == [[], []]


def test_the_names_of_skipped_objects_count_towards_the_size_of_a_page(monkeypatch):
    broker = Broker()
    for name in ("a", "c", "d"):
        broker.queue(name)
    page_bytes = exported_bytes(broker, "a")
    broker.queue("b", filler="x" * 2 * page_bytes)
    monkeypatch.setattr(import_export, "PAGE_BYTES", page_bytes)

    found = pages(broker)

    names = [[one["name"] for section, one in page["objects"]] for page in found]
    assert names == [["/", "a"], ["c", "d"]]
    assert [page["skipped"] for page in found] == [["queues: 'b' is too large"], []]


def test_a_binding_too_large_for_a_page_is_skipped_although_it_has_no_name():
    broker = Broker()
    broker.queue("q")
    broker.bind("amq.headers", "q", arguments={"filler": "x" * (PAGE_BYTES + 1)})

    [page] = pages(broker)

    assert page["skipped"] == ["bindings: '' is too large"]


def test_the_name_of_a_skipped_policy_is_cut_after_255_characters():
    broker = Broker()
    broker.policy("p" * 300, "^q" + "x" * PAGE_BYTES, {"max-length": 3})

    [page] = pages(broker)

    assert page["skipped"] == [f"policies: {'p' * 255!r} is too large"]
