"""The balance closes, and finds every row removed from the ledger."""

import shutil
from typing import Any

import pytest
from deltalake import DeltaTable

from streaming.queries.audit.balance import QueueBalance, VhostBalance
from streaming.queries.audit.unexplained import REBUILD, Finding
from streaming.queries.duckdb_tables import Tables
from tests.seeds import seeds
from tests.unit.queries.drawing import change, drawn, named, remove, repeat
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import QUERY_ID, Recording, apart
from tests.unit.queries.shop import a_shop


def test_the_shops_balance_is_closed(shop_root):
    found = drawn(shop_root)

    assert (found.batch_id, found.unexplained, found.findings, found.quarantined) == (1, 0, [], 0)
    assert found.vhosts == [VhostBalance("/", messages=9, unroutable=1, publish_errors=1)]
    assert found.queues == [
        QueueBalance(
            "/",
            "billing",
            published=4,
            ready=1,
            unacked=1,
            endings={"acked": 1, "rejected": 1},
        ),
        QueueBalance("/", "box", published=1, ready=1, refused=1),
        QueueBalance("/", "dead", dead_lettered=2, ready=1, endings={"consumed": 1}),
        QueueBalance("/", "mail", published=1, endings={"expired": 1}),
    ]
    assert [row.surplus for row in found.queues] == [0, 0, 0, 0]


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_the_balance_closes_after_any_events(tmp_path, seed):
    plays = [RandomPlay(seed), RandomPlay(100 + seed, vhost="other")]
    apart(plays[1].broker, 1000)
    recording = Recording(tmp_path, *(play.broker for play in plays))
    for _ in range(3):
        for play in plays:
            play.steps(40)
        recording.commit()

    found = drawn(tmp_path)

    assert (found.findings, {row.surplus for row in found.queues}) == ([], {0})
    assert (
        sum(row.messages for row in found.vhosts)
        == sum(len(play.broker.bodies) for play in plays) - 1000
    )
    assert {row.vhost for row in found.queues} == {"/", "other"}


@pytest.mark.parametrize(
    ("name", "batch"),
    [("messages", 0), ("messages", 1), ("dead_letters", 0), ("events", 0), ("events", 1)],
)
def test_any_removed_row_is_found_with_its_message(shop_root, tmp_path, name, batch):
    rows = Tables(shop_root)
    rows.view(name)
    key = "seq" if name != "messages" else '"offset"'
    keys = rows.values(f"SELECT {key} FROM {name} WHERE batch_id = {batch} ORDER BY ALL")
    assert keys
    for (number,) in keys:
        root = tmp_path / f"without {number}"
        shutil.copytree(shop_root, root)
        gone: list[dict[str, Any]] = []

        def is_it(row, number=number, gone=gone):
            found = row["offset" if name == "messages" else "seq"] == number
            if found and row["batch_id"] == batch:
                gone.append(row)
                return True
            return False

        assert remove(root, name, is_it) == 1
        found = drawn(root)

        assert found.unexplained == 1, (number, found.findings)
        message = gone[0].get("message_id")
        if name == "messages":
            message = {key: gone[0][key] for key in ("topic_number", "partition", "offset")}
        if message is not None:
            wanted = "/".join(str(part) for part in message.values())
            assert found.findings[0].message_id == wanted, (number, found.findings)


def test_a_missing_event_is_identified_by_later_events(copy_of_shop):
    remove(copy_of_shop, "events", lambda row: row["seq"] == 10)

    (finding,) = drawn(copy_of_shop).findings
    why = "event 13 (delivered) is about the copy that it enqueued"
    assert finding == Finding("missing event", "/", 0, why, 10, 10, "billing", "0/0/0")


def test_a_missing_death_is_identified_by_its_dead_letter(copy_of_shop):
    remove(copy_of_shop, "events", lambda row: row["kind"] == "died" and row["queue"] == "mail")

    found = drawn(copy_of_shop)

    assert named(found) == [("missing event", 18, "0/0/2", "mail", 1)]
    assert "dead_letters" in found.findings[0].why


def test_a_missing_dead_letter_is_identified_by_its_event(copy_of_shop):
    remove(copy_of_shop, "dead_letters", lambda row: row["queue"] == "mail")

    assert named(drawn(copy_of_shop)) == [("missing dead letter", 18, "0/0/2", "mail", 1)]


def test_a_missing_message_is_identified_by_its_events(copy_of_shop):
    remove(copy_of_shop, "messages", lambda row: row["offset"] == 6)

    assert named(drawn(copy_of_shop)) == [("missing message", None, "0/0/6", "billing", 1)]


def test_a_missing_ack_is_identified_by_queue_contents(copy_of_shop):
    remove(copy_of_shop, "events", lambda row: row["kind"] == "acked")

    found = drawn(copy_of_shop)

    assert named(found) == [("missing event", 17, "0/0/1", "billing", 1)]
    assert "queue_contents" in found.findings[0].why


def test_a_row_missing_from_queue_contents_is_no_missing_event(copy_of_shop):
    assert remove(copy_of_shop, "queue_contents", lambda row: row["queue"] == "dead") == 1

    found = drawn(copy_of_shop)

    assert [(one.what, one.message_id, one.queue) for one in found.findings] == [
        ("missing row of queue_contents", "0/0/2", "dead")
    ]
    assert found.findings[0].why.endswith(REBUILD)


def test_a_contradicting_row_of_queue_contents_is_wrong(copy_of_shop):
    change(copy_of_shop, "queue_contents", "state", "unacked", where=("queue", "dead"))

    found = drawn(copy_of_shop)

    assert [(one.what, one.queue) for one in found.findings] == [
        ("wrong row of queue_contents", "dead")
    ]
    assert str(REBUILD) in found.findings[0].why


def test_a_row_of_queue_contents_without_a_copy_is_stray(copy_of_shop):
    change(copy_of_shop, "queue_contents", "copy_id", 4, where=("queue", "dead"))

    found = drawn(copy_of_shop)

    assert sorted((one.what, one.copy_id == 4) for one in found.findings) == [
        ("missing row of queue_contents", False),
        ("stray row of queue_contents", True),
    ]
    assert all(one.why.endswith(REBUILD) for one in found.findings)


def test_a_missing_row_without_traces_is_identified_by_its_neighbours(copy_of_shop):
    remove(copy_of_shop, "events", lambda row: row["kind"] == "topology" and row["seq"] == 3)

    assert drawn(copy_of_shop).findings == [
        Finding(
            "missing event",
            "/",
            0,
            "no event has number 3, between 2 (topology, batch 0) and 4 (topology, batch 0)",
            3,
        )
    ]


def test_a_missing_last_event_of_a_shard_is_found(tmp_path):
    recording = a_shop(tmp_path)  # without queue_contents, which would reveal it
    last = 27
    assert remove(tmp_path, "events", lambda row: row["seq"] == last) == 1

    found = drawn(recording.root)

    assert named(found) == [("missing event", last, "0/0/8", None, 1)]


def test_batches_without_row_counts_are_checked_as_far_as_possible(tmp_path):
    a_shop(tmp_path, with_totals=False)
    assert drawn(tmp_path).findings == []

    remove(tmp_path, "events", lambda row: row["seq"] == 25)  # order 6 enters billing

    assert named(drawn(tmp_path)) == [("missing event", 25, "0/0/6", None, 1)]


def test_a_missing_batch_row_is_found(copy_of_shop):
    remove(copy_of_shop, "events", lambda row: row["kind"] == "batch" and row["batch_id"] == 0)

    assert drawn(copy_of_shop).findings == [
        Finding(
            "missing batch row",
            None,
            None,
            f"events has no row of kind batch for batch 0 of query {QUERY_ID}",
        )
    ]


def test_a_missing_batch_of_events_is_found(copy_of_shop):
    gone = remove(
        copy_of_shop, "events", lambda row: row["batch_id"] == 0 and row["kind"] != "batch"
    )

    found = drawn(copy_of_shop)

    assert gone == 20
    assert sum(one.count for one in found.findings if one.what == "missing event") == 20
    assert {one.message_id for one in found.findings} >= {"0/0/0", "0/0/1", "0/0/2"}


@pytest.mark.parametrize(
    ("name", "condition", "finding"),
    [
        ("events", lambda row: row["seq"] == 18, ("repeated row", 18, "0/0/2", "mail", 1)),
        ("dead_letters", lambda row: row["seq"] == 18, ("repeated row", 18, "0/0/2", "mail", 1)),
        ("messages", lambda row: row["offset"] == 6, ("repeated row", None, "0/0/6", None, 1)),
    ],
    ids=["events", "dead_letters", "messages"],
)
def test_a_repeated_row_is_found(copy_of_shop, name, condition, finding):
    repeat(copy_of_shop, name, condition)

    assert finding in named(drawn(copy_of_shop))


def test_findings_are_counted_for_their_queue(copy_of_shop):
    remove(copy_of_shop, "dead_letters", lambda row: row["queue"] == "mail")
    remove(copy_of_shop, "events", lambda row: row["kind"] == "topology" and row["seq"] == 3)

    found = drawn(copy_of_shop)

    assert [(row.queue, row.unexplained) for row in found.queues if row.unexplained] == [
        ("mail", 1),
        (None, 1),
    ]


def test_rows_of_an_uncommitted_batch_are_ignored(shop_root, tmp_path):
    """Messages are committed first; a balance between the commits must not miss their events."""
    recording = a_shop(tmp_path)
    events = recording.brokers[0]
    events.publish("", "box", "order 9")
    before = DeltaTable(f"{recording.root}/events").version()
    recording.commit()
    table = DeltaTable(f"{recording.root}/events")
    table.restore(before)

    found = drawn(tmp_path)

    assert (found.batch_id, found.findings, found.vhosts[0].messages) == (1, [], 9)
    assert drawn(shop_root).findings == []


def test_a_row_deleted_through_delta_is_found_missing(copy_of_shop):
    table = DeltaTable(str(copy_of_shop / "dead_letters"))
    table.delete("queue = 'mail'")

    assert named(drawn(copy_of_shop)) == [("missing dead letter", 18, "0/0/2", "mail", 1)]
