"""Dead letters are found by an id, a word of a header or body, within what a user may read."""

import pytest

from streaming.queries import open_tables
from streaming.queries.dead_letters.find import MAX_SEARCHED_BODY_BYTES, find_letters
from streaming.queries.duckdb_tables import Tables
from tests.builders import Broker
from tests.unit.queries.recording import Recording
from tests.unit.queries.test_read_rights import root

__all__ = ["root"]

FIRST, MAIL = ("0/0/0", "billing", "rejected"), ("0/0/2", "mail", "expired")


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("first", "message_id", [FIRST]),
        ("same", "message_id", [MAIL]),
        ("acme", "headers", [FIRST]),
        ("order 0", "body", [FIRST]),
        ("é", "body", [MAIL]),
        ("order", "body", [MAIL, FIRST]),
        ("ord", None, []),
        (".*", None, []),
        ("", None, []),
    ],
)
def test_a_text_is_found_as_an_id_or_as_a_whole_word(shop, text, place, found):
    letters = find_letters(shop, text, 10)

    assert [(one.message_id, one.queue, one.reason) for one in letters] == found
    assert {one.place for one in letters} == ({place} if place else set())


def test_the_most_telling_place_comes_first_and_no_more_than_asked_for(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path, broker)
    broker.queue("work", dead_letter_exchange="")
    broker.publish("", "work", '{"order": 17, "note": "é"}')
    broker.publish("", "work", '{"order": 170}', headers={"order": 17})
    broker.publish("", "work", "x", correlation_id="17")
    broker.publish("", "work", "x", message_id="17")
    broker.publish("", "work", f"17 {'x' * MAX_SEARCHED_BODY_BYTES}")
    broker.reject(*(one.ref for one in broker.get("work", "all", 5)))
    recording.commit()

    with Tables(str(tmp_path)) as tables:
        places = [one.place for one in find_letters(tables, "17", 10)]
        two = [one.place for one in find_letters(tables, "17", 2)]
        elsewhere = find_letters(tables, "17", 10, vhost="other")

    assert places == ["message_id", "correlation_id", "headers", "body"]
    assert two == places[:2]
    assert elsewhere == []


def test_a_user_finds_nothing_in_what_they_may_not_read(root):
    found = {}
    for user in ("ann", "bob"):
        with open_tables(root, user=user) as queries:
            found[user] = {one.queue for one in find_letters(queries.tables, "secret", 10)}

    assert found == {"ann": {"mail", "lossy"}, "bob": {"work", "mail", "lossy"}}
