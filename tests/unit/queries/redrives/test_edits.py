"""A plan may edit its letters: each gets a new version, and both contents have a hash."""

import msgspec
import pytest

from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.sealed_plan import InvalidPlanError, read_plan
from streaming.queries.audit.balance import balance
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import history_of
from streaming.queries.redrives import edits
from streaming.queries.redrives.edits import EditWish
from streaming.queries.redrives.outcomes import outcome_of
from streaming.queries.redrives.plan import RedriveWish, content_of_letter
from tests.unit.queries.redrives.letters import ALL, Shop
from topology.values import table_from_json


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path, 2)


def publish_versions(shop, plan):
    for version, content in sorted(plan.sealed.edited.items()):
        headers = table_from_json(content.headers or {})
        shop.broker.publish(
            "",
            f"{VERSION_KEY}{version}",
            content.body.decode(),
            headers=headers,
            **content.properties,
        )


def approve(shop, plan):
    publish_versions(shop, plan)
    shop.recording.commit()
    return shop.approve(plan)


def edit(shop, wanted=ALL, **wish):
    return shop.plan(wanted, edit=EditWish(**wish))


def test_an_edited_letter_is_followed_from_its_original_to_its_fate(shop):
    plan = edit(shop, headers={"tenant": "t1", "fixed": True}, body_sql="decode(body) || '!'")

    assert approve(shop, plan)["moved"] == 2
    given = shop.broker.get("work", "g", count=2)
    assert [shop.broker.body(one) for one in given] == ["m0!", "m1!"]
    headers = shop.broker.delivered_headers(given[0].copy) or {}
    assert (headers["tenant"], headers["fixed"], headers["x-redrive-count"]) == ("t1", True, 1)
    assert [death["queue"] for death in headers["x-death"]] == ["work"]
    shop.broker.ack("g/0")
    shop.broker.reject("g/1")

    outcome = shop.ask(outcome_of, plan.sealed.id)
    fates = {one["message_id"]: one["fate"] for one in outcome.letters}
    assert fates == {"0/0/0": "acked", "0/0/1": "died"}
    versions = {one["message_id"]: one["version"] for one in outcome.letters}
    [first, second] = plan.edits
    assert outcome.new_deaths == 0
    assert versions["0/0/0"]["version"] == first.version
    assert versions["0/0/1"]["original"] == second.original
    assert shop.ask(balance).unexplained == 0
    [moved] = [
        event for event in shop.ask(history_of, "0/0/0").events if event["kind"] == "redriven"
    ]
    new = str(MessageId(*moved["detail"]["edit"]["message"]))
    history = shop.ask(history_of, new)
    assert history.version_of == "0/0/0"
    assert shop.ask(history_of, "0/0/0").version_of is None


def test_an_edited_letter_that_dies_again_can_be_redriven_again(shop):
    approve(shop, edit(shop, headers={"fixed": True}))
    shop.kill("work", 2)

    again = shop.plan()

    assert [group.forecast["redriven before"] for group in again.groups] == [2]
    assert shop.approve(again)["moved"] == 2


def test_an_edit_shows_what_differs(shop):
    plan = edit(shop, properties={"content_type": "text/plain"}, without_headers=("tenant",))

    assert plan.edits[0].message_id == "0/0/0"
    lines = ['+property content_type: "text/plain"', '-header tenant: "t0"']
    assert sorted(plan.edits[0].diff) == lines


def test_an_edit_that_changes_nothing_leaves_the_letter_as_it_is(shop):
    plan = edit(shop, headers={"tenant": "t0"})

    assert [one.message_id for one in plan.edits] == ["0/0/1"]
    assert [letter.edit is None for letter in plan.sealed.letters] == [True, False]


def test_headers_may_come_from_an_expression(shop):
    sql = "json_object('tenant', headers ->> 'tenant', 'n', 1)"

    plan = edit(shop, headers_sql=sql)

    [content] = [one for one in plan.sealed.edited.values() if one.headers["tenant"] == "t1"]
    assert content.headers == {"tenant": "t1", "n": 1}


def test_priority_and_expiration_of_an_edit_are_told_to_the_broker(shop):
    plan = edit(shop, properties={"priority": 3, "expiration": "0"})

    edits = [letter.edit for letter in plan.sealed.letters]
    assert [(one.priority, one.expiration) for one in edits] == [(3, "0")] * 2
    [group] = plan.groups
    assert group.forecast["expired"] == 2


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"headers": {"x-death": []}}, "x-death"),
        ({"without_headers": ("x-redrive-id",)}, "x-redrive-id"),
        ({"headers_sql": '\'{"CC": ["a"]}\''}, "CC"),
        ({"headers_sql": "'[]'"}, "not a JSON object"),
        ({"headers_sql": '\'{"a": {"$bytes": 5}}\''}, "headers"),
        ({"without_properties": ("contnt_type",)}, "contnt_type"),
        ({"body_sql": "NULL"}, "NULL"),
        ({"body_sql": "nonsense("}, "the new body"),
        ({"body_sql": "no_such_column"}, "no_such_column"),
        ({"body_sql": "body) , (body"}, "the new body"),
        ({"body_sql": "body; SELECT 1"}, "the new body"),
        ({"body_sql": "CAST(decode(body) AS INT)"}, "the edit"),
        ({"properties": {"expiration": "soon"}}, "expiration"),
        ({"properties": {"priority": 999}}, "priority"),
    ],
)
def test_a_wrong_edit_is_refused_in_words(shop, wish, said):
    with pytest.raises(QueryError, match=said):
        edit(shop, **wish)


def test_a_person_edits_one_letter(shop):
    with pytest.raises(QueryError, match="2 match"):
        shop.ask(content_of_letter, shop_wish())
    one = DeadLetterFilter(ids=(MessageId(0, 0, 1),))
    content = shop.ask(content_of_letter, shop_wish(one))
    assert content == LetterContent(b"m1", {}, {"tenant": "t1"})

    plan = edit(shop, one, content=LetterContent(b"by hand", {}, None))

    assert approve(shop, plan)["moved"] == 1
    assert shop.broker.drain("work") == ["by hand"]


def test_a_person_changes_no_header_of_the_broker(shop):
    one = DeadLetterFilter(ids=(MessageId(0, 0, 1),))

    with pytest.raises(QueryError, match="x-redrive-count"):
        edit(shop, one, content=LetterContent(b"", {}, {"x-redrive-count": 0}))


def shop_wish(wanted=ALL):
    return RedriveWish(wanted=wanted, options=RedriveOptions())


def test_a_plan_with_edits_survives_its_file_and_shows_a_change(shop):
    sealed = edit(shop, headers={"fixed": True}).sealed
    text = sealed.to_json()

    assert read_plan(text, "plan.json") == sealed
    [version, *_] = sealed.edited
    other = {**sealed.edited, version: LetterContent(b"evil", {}, None)}
    forged = msgspec.structs.replace(sealed, edited=other).sealed()
    with pytest.raises(InvalidPlanError, match="contents differ"):
        read_plan(forged.to_json(), "plan.json")


def test_the_last_letter_of_edits_comes_alone(shop):
    commands = list(edit(shop, headers={"fixed": True}).sealed.commands("why"))

    assert [len(command["letters"]) for command in commands] == [1, 1]


def test_only_an_editor_may_plan_an_edit_for_himself(shop):
    wish = {"user": "ann", "administrators": ("ann",), "edit": EditWish(headers={"a": 1})}

    with pytest.raises(QueryError, match="may not edit"):
        shop.plan(**wish)
    assert len(shop.plan(**wish, editors=("ann",)).edits) == 2


def test_many_bytes_are_refused(shop, monkeypatch):
    monkeypatch.setattr(edits, "MAX_BYTES", 3)
    with pytest.raises(QueryError, match="narrow the filter"):
        edit(shop, headers={"a": 1})
