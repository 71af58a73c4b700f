"""What was done to one message, of its own events alone."""

from streaming.queries.actions import actions_on
from streaming.queries.duckdb_tables import Tables
from streaming.queries.message_attributes import MessageId
from tests.unit.queries.redrives.letters import Shop


def test_events_before_the_message_arrived_are_not_read(tmp_path, monkeypatch):
    shop = Shop(tmp_path, letters=1)
    early = shop.ask(lambda tables: set(tables.files("events")))
    shop.broker.publish("", "work", "later")
    shop.kill("work", 1)
    shop.approve(shop.plan())
    read = []
    view = Tables.view

    def watched(tables, name, **options):
        if name == "events":
            read.append(options["files"])
        return view(tables, name, **options)

    def ask(offset):
        monkeypatch.setattr(Tables, "view", watched)
        rows = shop.ask(actions_on, MessageId(0, 0, offset))
        monkeypatch.undo()
        return [(row["kind"], row["reason"]) for row in rows]

    assert ask(1) == [("redriven", "fixed")]
    assert not early & set(read[0])
    assert ask(0) == [("redriven", "fixed")]
    assert early < set(read[1])


def test_what_was_done_to_a_message_that_retention_removed_is_looked_up_in_all_events(tmp_path):
    shop = Shop(tmp_path, letters=1)

    assert shop.ask(actions_on, MessageId(0, 0, 99)) == []
