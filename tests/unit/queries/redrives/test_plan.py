"""A plan names the letters that are dead now, and forecasts what becomes of them."""

import json

import pytest

from streaming.broker import commands
from streaming.broker.redrive_letters import RedriveOptions, Target
from streaming.protocol.command_json import parse_command
from streaming.protocol.sealed_plan import read_plan
from streaming.queries.audit.balance import balance
from streaming.queries.cut import Cut
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.life.scenario import scenario_of
from streaming.queries.life.what_if import what_if
from streaming.queries.message_attributes import MessageId
from streaming.queries.message_history import history_of
from streaming.queries.redrives.outcomes import (
    OUTCOMES,
    letters_by_outcome,
    list_redrives,
    outcome_of,
)
from streaming.queries.vhosts.declared import declared
from tests.builders import Broker
from tests.unit.queries.recording import Recording
from tests.unit.queries.redrives.letters import ALL, Shop, retried
from topology.definitions.dump import dump_definitions


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def expected(plan):
    return {what: n for group in plan.groups for what, n in group.forecast.items()}


def test_a_plan_holds_the_copies_in_the_order_of_their_publish(shop):
    plan = shop.plan()

    [group] = plan.groups
    place = (group.died_in, group.reason, group.now_in, group.goes_to, group.letters)
    assert place == ("work", "rejected", "dead", "work", 4)
    assert group.forecast == {"no consumer": 4}
    assert shop.approve(plan)["moved"] == 4
    assert shop.broker.drain("work") == ["m0", "m1", "m2", "m3"]


def test_a_replay_and_a_scenario_say_that_they_leave_redrives_out(shop):
    shop.approve(shop.plan())
    document = shop.ask(
        lambda tables: dump_definitions(
            {name: one.definitions() for name, one in declared(tables).items()}
        )
    )

    found = shop.ask(what_if, Cut(-1), json.dumps(document).encode())
    scenario = shop.ask(lambda tables: scenario_of(tables, history_of(tables, "0/0/0")))

    assert (found.unplayed, found.apart) == (0, {})
    assert [one.replayed for one in found.fates if one.fate == "redriven"] == [4]
    assert "no step for a redrive" in scenario.notes[0]


def test_a_plan_survives_its_file_and_shows_a_change(shop):
    plan = shop.plan()
    text = plan.sealed.to_json()

    assert read_plan(text, "plan.json") == plan.sealed
    with pytest.raises(Exception, match="changed after it was sealed"):
        read_plan(text.replace(b'"work"', b'"wurk"'), "plan.json")
    with pytest.raises(Exception, match="not a sealed plan"):
        read_plan(b"{}", "plan.json")
    with pytest.raises(Exception, match="format"):
        read_plan(text.replace(b"plan 1", b"plan 9"), "plan.json")
    with pytest.raises(Exception, match="cap"):
        read_plan(text.replace(b'"cap": 3', b'"cap": 0'), "plan.json")
    with pytest.raises(Exception, match=r"letters\[0\]"):
        read_plan(text.replace(b"1600000000000", b"-1"), "plan.json")


def test_a_filter_and_ids_choose_the_letters(shop):
    by_header = shop.plan(DeadLetterFilter(headers=(("tenant", "t1"),)))
    by_id = shop.plan(DeadLetterFilter(ids=(MessageId(0, 0, 2),)))

    assert (len(by_header.sealed.letters), len(by_id.sealed.letters)) == (2, 1)
    assert by_header.sealed.predicate["headers"] == [["tenant", "t1"]]


def test_what_left_or_is_held_is_not_in_the_plan(shop):
    shop.broker.get("dead", count=1, auto_ack=True)
    shop.broker.get("dead", "h", count=1)

    plan = shop.plan()

    assert (len(plan.sealed.letters), plan.unacked) == (2, 1)


def test_letters_that_were_acked_meanwhile_are_skipped_and_listed(shop):
    plan = shop.plan()
    shop.broker.get("dead", count=2, auto_ack=True)

    assert shop.approve(plan)["skipped"] == 2
    outcome = shop.ask(outcome_of, plan.sealed.id)

    skipped = [one["message_id"] for one in outcome.letters if one["fate"] == "skipped"]
    assert skipped == ["0/0/0", "0/0/1"]


def test_each_letter_is_followed_to_its_fate(shop):
    plan = shop.plan()
    shop.broker.publish("", "work", "new")
    shop.approve(plan)
    shop.broker.get("work", "g", count=3)
    shop.broker.ack("g/1")
    shop.broker.reject("g/0", "g/2")

    outcome = shop.ask(outcome_of, plan.sealed.id)
    [row] = shop.ask(list_redrives)

    fates = {one["message_id"]: (one["fate"], one["reason"]) for one in outcome.letters}
    assert fates == {
        "0/0/0": ("acked", None),
        "0/0/1": ("died", "rejected"),
        "0/0/2": ("waiting", None),
        "0/0/3": ("waiting", None),
    }
    assert outcome.new_deaths == 1
    assert (row["status"], row["acked"], row["died"], row["waiting"]) == ("finished", 1, 1, 2)
    counts = shop.ask(letters_by_outcome)
    assert {outcome: count for (_vhost, outcome), count in counts.items()} == {
        **dict.fromkeys(OUTCOMES, 0),
        "acked": 1,
        "died": 1,
        "waiting": 2,
    }
    again = shop.plan(DeadLetterFilter(ids=(MessageId(0, 0, 1),)))
    assert expected(again)["redriven before"] == 1
    assert shop.ask(balance).unexplained == 0


def test_the_status_of_a_redrive_follows_its_commands(shop):
    plan = shop.plan()
    statuses = []
    for action in ("", "pause", "resume", "cancel"):
        if action:
            command = {"op": "control_redrive", "id": plan.sealed.id, "action": action}
            shop.broker.do(parse_command({**command, "reason": "x"}))
        else:
            shop.approve(plan, rate=1)
        statuses.append(shop.ask(list_redrives)[0]["status"])

    assert statuses == ["running", "paused", "running", "cancelled"]


def test_a_lost_letter_is_planned_with_gone_and_published_again_once(tmp_path):
    shop = Shop(tmp_path)
    shop.broker.queue("lossy")
    shop.broker.publish("", "lossy", "lost", headers={"h": 1}, message_id="m")
    shop.kill("lossy", 1)
    shop.broker.get("dead", count=1, auto_ack=True)

    plan = shop.plan(gone=True)

    assert {group.died_in for group in plan.groups} == {"work", "lossy"}
    assert shop.approve(plan)["moved"] == 2
    [got] = shop.broker.get("lossy", auto_ack=True)
    assert shop.broker.body(got) == "lost"
    assert shop.plan(gone=True).sealed.letters == ()
    assert shop.ask(balance).unexplained == 0


def test_a_letter_that_is_back_where_it_first_died_is_a_message_again(tmp_path):
    shop = Shop(tmp_path, 1)
    shop.broker.queue(
        "retry", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work"
    )
    shop.broker.policy("p", "^work$", {"message-ttl": 100_000})
    [letter] = shop.plan().sealed.letters
    shop.approve(shop.plan(destination="queue", name="retry"))
    shop.broker.at(1_000)

    assert shop.broker.depth("work") == 1
    assert shop.plan().sealed.letters == ()
    shop.broker.get("work", auto_ack=True)
    assert shop.plan(gone=True).sealed.letters == ()
    assert letter.queue == "dead"


def test_discarded_letters_can_be_restored_and_redriven_then(shop):
    discard = shop.plan(options=RedriveOptions(action="discard"))
    assert shop.approve(discard)["moved"] == 4
    assert shop.broker.depth("dead") == 0
    assert shop.plan().sealed.letters == ()
    restore = shop.plan(options=RedriveOptions(action="restore"))
    assert shop.approve(restore)["moved"] == 4
    assert shop.broker.depth("dead") == 4
    assert shop.plan(options=RedriveOptions(action="restore")).sealed.letters == ()

    plan = shop.plan()

    assert shop.approve(plan)["moved"] == 4
    assert shop.broker.drain("work") == ["m0", "m1", "m2", "m3"]
    assert shop.ask(balance).unexplained == 0


@pytest.mark.parametrize(
    ("wish", "what"),
    [
        ({"destination": "queue", "name": "gone"}, "target_gone"),
        ({"destination": "exchange", "name": "gone"}, "target_gone"),
        ({"destination": "exchange", "name": "amq.direct"}, "no_route"),
        ({"destination": "queue", "name": "full"}, "waits"),
        ({"destination": "queue", "name": "small"}, "maxlen"),
        ({"destination": "queue", "name": "hasty"}, "expired"),
        ({"destination": "queue", "name": "tiny"}, "too_large"),
        ({"destination": "queue", "name": "light"}, "maxlen"),
        ({"destination": "queue", "name": "loop"}, "cycle"),
    ],
)
def test_the_forecast_knows_the_topology(shop, wish, what):
    shop.broker.queue("full", max_length=1, overflow="reject-publish")
    shop.broker.queue("small", max_length=2)
    shop.broker.queue("hasty", message_ttl=0)
    shop.broker.queue("tiny", max_length_bytes=1, overflow="reject-publish")
    shop.broker.queue("light", max_length_bytes=4)
    shop.broker.queue("other", dead_letter_exchange="", dead_letter_routing_key="dead")
    shop.broker.queue("loop", dead_letter_exchange="", dead_letter_routing_key="other")
    shop.broker.publish("", "other", "x", expiration="5")
    shop.broker.at(10)

    assert expected(shop.plan(**wish)).get(what)


def test_letters_that_nobody_takes_in_time_die_again(tmp_path):
    shop = Shop(tmp_path, letters=2, message_ttl=5_000)

    assert expected(shop.plan()) == {"no consumer in time": 2}
    shop.broker.consume("work", "worker")
    assert expected(shop.plan()) == {}


def test_the_forecast_counts_what_a_full_target_does_with_each_letter(shop):
    shop.broker.queue("full", max_length=3, overflow="reject-publish")
    shop.broker.queue("small", max_length=3)
    for name in ("full", "small"):
        shop.broker.publish("", name, "x")

    waiting = shop.plan(destination="queue", name="full")
    pushing = shop.plan(destination="queue", name="small")

    assert (expected(waiting)["waits"], expected(pushing)["maxlen"]) == (2, 2)
    assert shop.approve(pushing)["moved"] == 4
    assert shop.broker.depth("small") == 3


def test_what_the_broker_would_refuse_is_refused_as_a_plan(shop):
    shop.broker.exchange("inside", internal=True)

    with pytest.raises(QueryError, match="403 ACCESS_REFUSED"):
        shop.plan(destination="exchange", name="inside")


@pytest.mark.parametrize("destination", ["original", "died"])
def test_a_letter_returns_to_its_exchange_or_its_queue(tmp_path, destination):
    shop = Shop(tmp_path, 0)
    shop.broker.queue("audit")
    for queue in ("work", "audit"):
        shop.broker.bind("amq.topic", queue, "order.#")
    shop.broker.publish("amq.topic", "order.new", "o")
    shop.kill("work", 1)

    shop.approve(shop.plan(destination=destination))

    depths = (shop.broker.depth("work"), shop.broker.depth("audit"))
    assert depths == ((1, 2) if destination == "original" else (1, 1))


def test_a_later_message_of_the_same_key_that_was_acked_is_told(tmp_path):
    shop = Shop(tmp_path, 2)
    shop.broker.publish("", "work", "later", headers={"tenant": "t1"})
    shop.broker.get("work", count=1, auto_ack=True)

    assert expected(shop.plan())["a later one was acked"] == 2
    assert expected(shop.plan(key="header:tenant"))["a later one was acked"] == 1


@pytest.mark.parametrize(("expiration", "expires"), [("keep", 1), ("restart", 0), ("drop", 0)])
def test_a_kept_expiration_may_be_over(tmp_path, expiration, expires):
    shop = Shop(tmp_path, 0)
    shop.broker.publish("", "work", "x", expiration="5")
    shop.broker.at(10)

    plan = shop.plan(options=RedriveOptions(expiration=expiration))

    assert expected(plan).get("expired", 0) == expires


def test_letters_of_the_cap_are_forecast_as_parked(shop):
    shop.approve(shop.plan())
    shop.kill("work", 4)

    plan = shop.plan(options=RedriveOptions(cap=1))

    assert expected(plan)["cap"] == 4
    assert shop.approve(plan)["parked"] == 4


def test_a_user_who_may_not_read_the_queue_cannot_plan_over_it(shop):
    permissions = {"configure": "", "write": ".*"}
    shop.broker.do(commands.SetPermissions(user="ann", read="^work$", **permissions))
    shop.broker.do(commands.SetPermissions(user="bob", read="^dead$", **permissions))

    with pytest.raises(QueryError, match=r"403 .*read access to queue 'dead'"):
        shop.plan(user="ann")
    assert len(shop.plan(user="bob").sealed.letters) == 4


def test_too_many_letters_and_unknown_redrives_are_refused(shop):
    with pytest.raises(QueryError, match="narrow the filter"):
        shop.plan(most=3)
    with pytest.raises(QueryError, match="there is no redrive 'r-x'"):
        shop.ask(outcome_of, "r-x")


def test_a_long_plan_is_approved_in_parts(shop, monkeypatch):
    monkeypatch.setattr("streaming.protocol.sealed_plan.LETTERS_PER_COMMAND", 3)
    plan = shop.plan()

    assert [command["first"] for command in plan.sealed.commands("x")] == [0, 3]
    assert shop.approve(plan)["moved"] == 4


def test_nothing_to_plan_is_an_empty_plan(tmp_path):
    plan = Shop(tmp_path, 0).plan()

    assert (plan.groups, plan.sealed.letters, plan.unacked) == ([], (), 0)


def test_a_letter_is_discarded_and_restored_again_and_again(shop):
    moved = []
    for _ in range(3):
        for action in ("discard", "restore"):
            plan = shop.plan(options=RedriveOptions(action=action))
            moved.append(shop.approve(plan)["moved"])

    assert moved == [4] * 6
    assert (shop.broker.depth("dead"), shop.broker.depth("work")) == (4, 0)
    assert shop.approve(shop.plan())["moved"] == 4


def test_a_restored_letter_that_was_acked_is_gone(shop):
    for action in ("discard", "restore"):
        shop.approve(shop.plan(options=RedriveOptions(action=action)))
    shop.broker.drain("dead")

    plan = shop.plan(gone=True)

    assert shop.approve(plan)["moved"] == 4
    assert shop.plan(gone=True).sealed.letters == ()


def test_a_headers_exchange_matches_on_typed_values(tmp_path):
    shop = Shop(tmp_path, 0)
    shop.broker.queue("by-header")
    shop.broker.bind("amq.headers", "by-header", arguments={"x-match": "all", "k": b"a"})
    shop.broker.publish("", "work", "m0", headers={"k": b"a"})
    shop.kill("work", 1)

    plan = shop.plan(destination="exchange", name="amq.headers")

    assert expected(plan) == {"no consumer": 1}


@pytest.mark.parametrize("value", [True, "a", 1, 1.5])
def test_a_header_of_any_type_tells_if_a_later_one_was_acked(tmp_path, value):
    shop = Shop(tmp_path, 0)
    shop.broker.publish("", "work", "m0", headers={"k": value})
    shop.kill("work", 1)
    shop.broker.publish("", "work", "m1", headers={"k": value})
    shop.broker.drain("work")

    assert expected(shop.plan(key="header:k"))["a later one was acked"] == 1


def test_letters_that_die_in_a_later_redrive_are_not_other_messages(shop):
    plans = []
    for _ in range(2):
        plans.append(shop.plan())
        shop.approve(plans[-1])
        shop.kill("work", 4)
    shop.broker.publish("", "work", "other")
    shop.kill("work", 1)

    assert [shop.ask(outcome_of, plan.sealed.id).new_deaths for plan in plans] == [1, 1]


def fanned_out(tmp_path):
    """A shop whose dead letters go to two queues."""
    shop = Shop(tmp_path, 0)
    shop.broker.exchange("dlx", "fanout")
    shop.broker.queue("jobs", dead_letter_exchange="dlx")
    shop.broker.queue("audit")
    for name in ("dead", "audit"):
        shop.broker.bind("dlx", name)
    shop.broker.publish("", "jobs", "j0")
    shop.broker.publish("", "jobs", "j1")
    shop.kill("jobs", 2)
    return shop


def test_a_message_in_two_dead_letter_queues_is_sent_once(tmp_path):
    shop = fanned_out(tmp_path)

    plan = shop.plan()

    assert (len(plan.sealed.letters), plan.copies) == (2, 2)
    assert {group.goes_to: group.letters for group in plan.groups} == {"jobs": 2, "": 2}
    assert expected(plan)["a copy that stays"] == 2
    assert shop.approve(plan)["moved"] == 2
    assert sorted(shop.broker.drain("jobs")) == ["j0", "j1"]
    later = shop.plan()
    assert (later.sealed.letters, later.copies) == ((), 2)
    assert len(shop.plan(every_copy=True).sealed.letters) == 2


def test_a_discard_removes_every_copy(tmp_path):
    shop = fanned_out(tmp_path)

    plan = shop.plan(options=RedriveOptions(action="discard"))

    assert (len(plan.sealed.letters), plan.copies) == (4, 0)


def test_a_count_that_a_client_wrote_is_not_forecast(shop):
    shop.broker.publish("", "work", "own", headers={"x-redrive-count": 9, "x-redrive-id": "mine"})
    shop.kill("work", 1)

    plan = shop.plan(DeadLetterFilter(ids=(MessageId(0, 0, 4),)))

    assert expected(plan) == {"no consumer": 1}


def test_an_original_destination_is_that_of_the_publish_whatever_a_client_says(tmp_path):
    shop = Shop(tmp_path, 0)
    shop.broker = Broker(compat="3.10")
    shop.recording = Recording(tmp_path / "old", shop.broker)
    shop.broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    shop.broker.queue("dead")
    shop.broker.exchange("shop")
    shop.broker.bind("shop", "work", "order")
    entry = {"queue": "x", "reason": "rejected", "exchange": "evil", "routing-keys": ["k"]}
    headers = {"x-death": [{**entry, "count": 1}], "CC": ["copy"]}
    shop.broker.publish("shop", "order", "m", headers=headers)
    shop.kill("work", 1)

    [letter] = shop.plan(destination="original").sealed.letters

    assert letter.target == Target(None, "shop", ("order", "copy"))


def test_a_restored_letter_keeps_the_keys_of_cc(tmp_path):
    shop = Shop(tmp_path, 0)
    shop.broker.exchange("dlx", "fanout")
    shop.broker.queue("jobs", dead_letter_exchange="dlx")
    shop.broker.bind("dlx", "dead")
    shop.broker.publish("", "jobs", "j0", headers={"CC": ["second"]})
    shop.kill("jobs", 1)
    shop.approve(shop.plan(options=RedriveOptions(action="discard")))

    [letter] = shop.plan(options=RedriveOptions(action="restore")).sealed.letters

    assert letter.target == Target("dead", "dlx", ("jobs", "second"))


@pytest.mark.parametrize("field", ["name", "routing_key"])
def test_a_destination_with_a_long_name_is_refused(shop, field):
    wish = {"destination": "exchange", "name": "amq.direct", field: "n" * 256}

    with pytest.raises(QueryError, match="255"):
        shop.plan(**wish)


@pytest.mark.parametrize(
    ("wanted", "goes_to"),
    [
        (DeadLetterFilter(queue="orders"), "orders"),
        (DeadLetterFilter(reason="rejected"), "orders"),
        (DeadLetterFilter(queue="retry"), "retry"),
        (ALL, "retry"),
    ],
)
def test_a_letter_that_died_again_is_found_by_each_of_its_deaths(tmp_path, wanted, goes_to):
    shop = retried(tmp_path)

    plan = shop.plan(wanted)

    reason = "rejected" if goes_to == "orders" else "expired"
    assert [
        (one.died_in, one.reason, one.now_in, one.goes_to, one.letters) for one in plan.groups
    ] == [(goes_to, reason, "parking", goes_to, 2)]
    shop.approve(plan)
    shop.broker.at(2000)
    assert shop.ask(lambda tables: outcome_of(tables, plan.sealed.id)).redrive["moved"] == 2


def test_a_letter_that_died_again_is_found_in_no_queue_and_after_a_discard(tmp_path):
    shop = retried(tmp_path)
    options = RedriveOptions(action="discard")
    discard = shop.plan(DeadLetterFilter(queue="orders"), options=options)
    shop.approve(discard)
    shop.broker.at(2000)

    restore = shop.plan(DeadLetterFilter(queue="orders"), options=RedriveOptions(action="restore"))

    assert [(one.died_in, one.goes_to, one.letters) for one in restore.groups] == [
        ("orders", "parking", 2)
    ]
    shop.approve(restore)
    shop.broker.at(3000)
    shop.broker.do(commands.Purge(queue="parking"))
    gone = shop.plan(DeadLetterFilter(queue="orders"), gone=True)
    assert [(one.died_in, one.goes_to, one.letters) for one in gone.groups] == [
        ("orders", "orders", 2)
    ]


def test_what_was_sent_back_is_not_found_by_the_deaths_before(tmp_path):
    shop = Shop(tmp_path, letters=0)
    shop.broker.queue("orders")
    shop.broker.publish("", "orders", "m")
    shop.kill("orders", 1)
    gone = shop.plan(DeadLetterFilter(queue="orders"), gone=True, destination="queue", name="work")
    shop.approve(gone)
    shop.broker.at(2000)
    shop.kill("work", 1)

    assert shop.plan(DeadLetterFilter(queue="orders")).groups == []
    assert [one.now_in for one in shop.plan(DeadLetterFilter(queue="work")).groups] == ["dead"]
