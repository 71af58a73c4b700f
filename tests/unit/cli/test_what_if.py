"""`dlx definitions replay`: the recorded log with another topology."""

import json
from typing import Any

import msgspec
import pytest

from streaming.broker import commands
from streaming.broker.config import ShardConfig
from streaming.broker.events import Kind
from streaming.broker.queues import step_size
from streaming.broker.redrive_letters import Edit, Letter, RedriveOptions, StoredLetter, Target
from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.queries.cut import Cut
from streaming.queries.duckdb_tables import Tables
from streaming.queries.life.what_if import what_if
from streaming.queries.vhosts.declared import declared
from tests.builders import Broker
from tests.unit.queries.random_play import RandomPlay
from tests.unit.queries.recording import Recording
from topology.declarations import Queue
from topology.definitions.dump import dump_definitions


def document_of(tables):
    return dump_definitions({name: one.definitions() for name, one in declared(tables).items()})


@pytest.fixture
def document(shop_root):
    return document_of(Tables(shop_root))


def replayed(dlx, shop_root, file, *options):
    arguments = ("--definitions", file, "--tables", shop_root)
    return dlx("definitions", "replay", *arguments, "--processes", 1, *options)


def test_the_same_topology_gives_the_same_fates(dlx, shop_root, document, write):
    status, out, err = replayed(dlx, shop_root, write(document))

    assert (status, out) == (0, "no differences: every message would have had the same fate\n")
    assert err.startswith("replayed 9 publishes, with 0 copies")


def test_another_topology_gives_other_fates(dlx, shop_root, document, write):
    for queue in document["queues"]:
        if queue["name"] == "mail":
            queue["arguments"] = {}
    _, out, _ = replayed(dlx, shop_root, write(document), "--json")

    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["queue"], row["fate"], row["recorded"], row["replayed"]) for row in rows] == [
        ("dead", "enqueued", 2, 1),
        ("dead", "waiting", 1, 0),
        ("mail", "died", 1, 0),
        ("mail", "waiting", 0, 1),
    ]


def test_what_was_in_the_queues_is_there_at_the_beginning(dlx, shop_root, document, write):
    file = write(document)
    arguments = ("--definitions", file, "--tables", shop_root, "--processes", 1)
    status, out, err = dlx("definitions", "replay", "--since", "0", *arguments, "--all", "--json")

    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert all(row["difference"] == 0 for row in rows)
    assert ("dead", "waiting", 1) in {(row["queue"], row["fate"], row["replayed"]) for row in rows}
    assert err.startswith("replayed 6 publishes, with 1 copies")


def test_what_was_in_a_queue_that_is_gone_is_lost(dlx, shop_root, document, write):
    document["queues"] = [one for one in document["queues"] if one["name"] != "dead"]
    document["bindings"] = [one for one in document["bindings"] if one["destination"] != "dead"]
    arguments = ("--since", "0", "--all", "--json")
    _, out, _ = replayed(dlx, shop_root, write(document), *arguments)

    rows = [json.loads(line) for line in out.splitlines()]
    assert min(row["replayed"] for row in rows) == 0
    fates = {(row["queue"], row["fate"], row["reason"]): row["replayed"] for row in rows}
    assert fates["dead", "lost", "no_queue"] == 1
    assert fates["dead", "waiting", ""] == 0


def test_an_unknown_vhost_and_a_broken_file_are_refused(dlx, shop_root, write):
    status, out, err = replayed(dlx, shop_root, write({"vhosts": [{"name": "other"}]}))
    assert (status, out) == (2, "")
    assert "no vhost of the tables: '/'" in err

    status, out, err = replayed(dlx, shop_root, write("{", "broken.json"))
    assert (status, out) == (2, "")
    assert "broken.json" in err


def test_the_answer_is_the_same_each_time_and_balances(tmp_path):
    random = RandomPlay(3)
    recording = Recording(tmp_path / "tables", random.broker)
    for _ in range(3):
        random.steps(80)
        recording.commit()
    recording.close()
    tables = Tables(recording.root)
    document = json.dumps(document_of(tables)).encode()

    first, second = (what_if(tables, Cut(0), document) for _ in range(2))

    assert first == second
    assert first.publishes > 10
    waiting = sum(one.replayed for one in first.fates if one.fate == "waiting")
    assert waiting >= 0


@pytest.fixture
def shared_queues(tmp_path):
    """Tables with copies that came into their queues in different ways."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("retry", message_ttl=60_000, dead_letter_exchange="", dead_letter_routing_key="up")
    broker.queue("up", max_priority=5)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="up")
    broker.publish("", "work", "rejected", headers={"tenant": "acme"})
    broker.publish("", "work", "held")
    broker.publish("", "retry", "expires", expiration="50000")
    for priority in (1, 4):
        broker.publish("", "up", f"priority {priority}", priority=priority)
    broker.get("work", "g", 2)
    broker.reject("g/0")
    return recording


def fates_after(recording, later):
    recording.commit()
    later()
    recording.commit()
    recording.close()
    tables = Tables(recording.root)
    document = json.dumps(document_of(tables)).encode()
    return what_if(tables, Cut(0), document)


def test_copies_at_the_beginning_keep_their_age_expiration_priority_and_holder(
    shared_queues,
):
    [broker] = shared_queues.brokers

    def later():
        broker.at(55_000)
        broker.ack("g/1")
        given = broker.get("up", "h", 4)
        broker.ack(*(one.ref for one in given))

    found = fates_after(shared_queues, later)

    assert (found.resident, found.unplayed) == (5, 0)
    assert [one for one in found.fates if one.recorded != one.replayed] == []
    died = [one for one in found.fates if one.fate == "died"]
    assert [(one.queue, one.reason, one.replayed) for one in died] == [("retry", "expired", 1)]


def test_copies_at_the_beginning_know_their_deaths(tmp_path):
    """A cycle through two queues that expire ends at once, since x-death knows it."""
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("first", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="b")
    broker.queue("b", message_ttl=1_000, dead_letter_exchange="", dead_letter_routing_key="first")
    broker.publish("", "first", "order")
    broker.at(1_500)

    found = fates_after(recording, lambda: broker.at(9_000))

    assert [one for one in found.fates if one.recorded != one.replayed] == []
    assert ("b", "lost", "cycle", 1) in {
        (one.queue, one.fate, one.reason, one.replayed) for one in found.fates
    }


# -- every kind of command, with the topology as it is


def same(recording, cut=None, **rules):
    """Replay with the exported topology: the answer, and the fates that differ."""
    tables = Tables(recording.root)
    document = json.dumps(document_of(tables)).encode()
    found = what_if(tables, cut or Cut(-1), document, rules={"/": ShardConfig(**rules)})
    return found, [one for one in found.fates if one.recorded != one.replayed]


@pytest.fixture
def a_recording(tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.exchange("dlx", "fanout")
    broker.queue("work", dead_letter_exchange="dlx")
    broker.queue("dead")
    broker.bind("dlx", "dead")
    return recording


def died(broker, *bodies):
    """Messages that were rejected into `dead`; returns their copies there."""
    for body in bodies:
        broker.publish("", "work", body)
    broker.get("work", "rejects", len(bodies))
    broker.do(commands.Reject(refs=tuple(f"rejects/{n}" for n in range(len(bodies)))))
    rows = broker.shard.events.rows()
    copies = [row.copy for row in rows if row.kind is Kind.ENQUEUED and row.queue == "dead"]
    return [copy.copy_id for copy in copies[-len(bodies) :]]


def redrive(broker, letters, action="redrive", **fields):
    options = RedriveOptions(action=action, **fields)
    sealed: dict[str, Any] = {
        "id": f"r{letters[0].copy_id}-{action}",
        "reason": "x",
        "seal": "s",
        "total": len(letters),
    }
    answer = broker.answer(commands.Redrive(letters=tuple(letters), options=options, **sealed))
    assert answer["moved"] == len(letters)


def purges(broker):
    for number in range(5):
        broker.publish("", "work", f"m{number}")
    broker.get("work", "g", 2)
    broker.do(commands.Purge(queue="work"))
    broker.reject("g/0", requeue=True)
    broker.publish("", "work", "after")
    broker.at(5)
    broker.do(commands.Purge(queue="work"))
    broker.ack("g/1")


def purges_what_has_expired_behind_the_head(broker):
    broker.publish("", "work", "head")
    broker.publish("", "work", "behind", expiration="10")
    broker.at(50)
    broker.do(commands.Purge(queue="work"))
    broker.at(60)


def settles_several_at_once(broker):
    broker.exchange("alone", "fanout")
    broker.queue("one", max_length=1)
    broker.queue("other", dead_letter_exchange="alone")
    broker.bind("alone", "one")
    for number in range(4):
        broker.publish("", "other", f"m{number}")
    broker.get("other", "g", 4)
    broker.do(commands.Nack(refs=("g/1",), multiple=True))
    broker.reject("g/2")
    broker.close_channel()


def purges_more_than_one_step_removes(broker):
    for number in range(6):
        broker.publish("", "work", f"m{number}")
    broker.do(commands.Purge(queue="work"))
    broker.publish("", "work", "after")
    broker.at(1_000)


def redrives_discards_and_restores(broker):
    copies = died(broker, "a", "b", "c", "d")
    target = Target("work", "", ("work",))
    redrive(broker, [Letter(0, copies[0], "dead", target)])
    redrive(broker, [Letter(0, copies[1], "dead", Target(None, "dlx", ("k",)))])
    redrive(broker, [Letter(0, copies[2], "dead")], "discard")
    yield  # a restore reads the message in the tables
    stored = StoredLetter((0, 0, 2), 1, 0, None, ())
    restored = Letter(0, copies[2], "dead", Target("dead", "dlx", ("k",)))
    redrive(broker, [msgspec.structs.replace(restored, stored=stored)], "restore")
    broker.get("work", "again")
    broker.do(commands.Reject(refs=("again/0",), reason="still wrong"))


def redrives_an_edited_letter(broker):
    [copy_id] = died(broker, "a")
    old, new = "a" * 64, "b" * 64
    broker.publish("", f"{VERSION_KEY}{new}", "better", confirm=True)
    edit = Edit(old, new)
    target = Target("work", "", ("work",))
    redrive(broker, [Letter(0, copy_id, "dead", target, edit=edit)])


def deletes_and_declares_again(broker):
    broker.queue("gone", alternate_exchange="dlx")
    for number in range(3):
        broker.publish("", "gone", f"m{number}")
    broker.get("gone", "g")
    broker.do(commands.DeleteQueue(queue="gone"))
    broker.at(5)


def uses_an_exclusive_queue(broker):
    command = commands.DeclareQueue(queue=Queue("", exclusive=True), channel="rpc")
    answer = broker.answer(command)
    broker.bind("dlx", answer["queue"])
    broker.publish("", answer["queue"], "answer")
    died(broker, "a")
    broker.do(commands.Get(queue=answer["queue"], label="g", channel="rpc"))
    broker.close_channel("rpc")


def publishes_to_a_consumer_at_once(broker):
    broker.consume("work", "c", prefetch=1)
    broker.publish("", "work", "taken", immediate=True)
    broker.publish("", "work", "returned", immediate=True)
    broker.do(commands.Cancel(label="c", channel="c0"))
    broker.ack("c/0")


def sets_and_clears_a_policy(broker):
    broker.policy("short", "work", {"max-length": 1})
    for number in range(3):
        broker.publish("", "work", f"m{number}")
    broker.do(commands.ClearPolicy(name="short"))
    broker.publish("", "work", "long again")


def expires_and_returns(broker):
    broker.queue("brief", expires=1_000, message_ttl=300, dead_letter_exchange="dlx")
    broker.consume("brief", "c", prefetch=1)
    for number in range(2):
        broker.publish("", "brief", f"m{number}")
    broker.at(5_000)
    broker.do(commands.Recover(channel="c0"))
    broker.close_channel()
    broker.at(9_000)


def reaches_a_delivery_limit(broker):
    broker.quorum("limited", delivery_limit=1, dead_letter_exchange="dlx")
    broker.publish("", "limited", "m")
    for label in ("a", "b"):
        broker.get("limited", label)
        broker.reject(f"{label}/0", requeue=True)


def holds_a_dead_letter(broker):
    broker.quorum(
        "safe",
        dead_letter_exchange="later",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    broker.exchange("later", "fanout")
    for number in range(2):
        broker.publish("", "safe", f"m{number}")
    broker.get("safe", "g", 2)
    broker.do(commands.Reject(refs=("g/0",), reason="why not"))
    broker.reject("g/1")
    broker.at(200_000)


@pytest.mark.parametrize(
    "happens",
    [
        purges,
        purges_what_has_expired_behind_the_head,
        settles_several_at_once,
        purges_more_than_one_step_removes,
        redrives_discards_and_restores,
        redrives_an_edited_letter,
        deletes_and_declares_again,
        uses_an_exclusive_queue,
        publishes_to_a_consumer_at_once,
        sets_and_clears_a_policy,
        expires_and_returns,
        reaches_a_delivery_limit,
        holds_a_dead_letter,
    ],
)
def test_the_exported_topology_gives_no_differences(a_recording, happens, monkeypatch):
    monkeypatch.setattr(step_size, "MAX_AT_ONCE", 5)
    [broker] = a_recording.brokers
    for _ in happens(broker) or ():
        a_recording.commit()
    a_recording.commit()

    found, differences = same(a_recording)

    assert differences == []
    assert (found.unplayed, found.apart) == (0, {})
    assert found.publishes > 0


@pytest.mark.parametrize("ending", ["delivery_limit", "held"])
def test_what_was_returned_or_held_before_the_beginning_goes_on(a_recording, ending):
    [broker] = a_recording.brokers
    if ending == "held":
        holds_a_dead_letter(broker)
        a_recording.commit()
        broker.bind("later", "dead")
        broker.at(500_000)
    else:
        broker.quorum("limited", delivery_limit=1, dead_letter_exchange="dlx")
        broker.publish("", "limited", "m")
        broker.get("limited", "a")
        broker.reject("a/0", requeue=True)
        a_recording.commit()
        broker.get("limited", "b")
        broker.reject("b/0", requeue=True)
    a_recording.commit()

    found, differences = same(a_recording, Cut(0))

    assert differences == []
    assert found.resident == (2 if ending == "held" else 1)
    assert found.unplayed == 0


def test_users_and_deployments_change_no_message(a_recording, dlx, write):
    [broker] = a_recording.brokers
    broker.publish("", "work", "before")
    broker.do(commands.SetParameter(component="user", name="ann", value="{}"))
    broker.do(commands.Deployed(service="worker", version="2", queues=("work",)))
    broker.publish("", "work", "after")
    a_recording.commit()
    tables = Tables(a_recording.root)
    file = write(document_of(tables))

    status, _out, err = replayed(dlx, a_recording.root, file)

    assert status == 0
    assert "not replayed" not in err


def test_changes_of_what_lasts_are_listed_with_the_reason(a_recording, dlx, write):
    [broker] = a_recording.brokers
    broker.publish("", "work", "before")
    broker.queue("new")
    broker.publish("", "new", "after")
    a_recording.commit()
    tables = Tables(a_recording.root)
    file = write(document_of(tables))

    status, out, err = replayed(dlx, a_recording.root, file)

    assert (status, out) == (0, "no differences: every message would have had the same fate\n")
    assert "not replayed: 1 changes of the topology: the definitions hold from" in err


@pytest.mark.parametrize(
    ("user", "properties"), [("nobody", {}), ("admin", {"user_id": "someone else"})]
)
def test_a_publish_that_its_user_may_not_make_is_refused_again(tmp_path, user, properties):
    broker = Broker(enforce_permissions=True, administrators=("admin",))
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work")
    broker.publish("", "work", "m", user=user, **properties)
    recording.commit()

    found, differences = same(recording)

    assert differences == []
    assert found.apart == {"publishes that their user may not make: they are refused again": 1}


@pytest.mark.parametrize(
    ("settings", "rules", "returns"),
    [
        ('[vhosts."/"]\ndefault_delivery_limit = 1\n', {"default_delivery_limit": 1}, 2),
        ('[job]\ncompat = "3.10"\n', {"compat": "3.10"}, 21),
    ],
    ids=["delivery limit", "compat"],
)
def test_rules_of_the_configuration_hold_in_the_replay(
    tmp_path, dlx, write, settings, rules, returns
):
    broker = Broker(**rules)
    recording = Recording(tmp_path / "tables", broker)
    broker.quorum("limited")
    broker.publish("", "limited", "m")
    for label in range(returns):
        broker.get("limited", f"g{label}")
        broker.reject(f"g{label}/0", requeue=True)
    recording.commit()
    recording.close()
    file = write(document_of(Tables(recording.root)))
    write(settings, "dlx.toml")

    _, out, _ = replayed(dlx, recording.root, file)
    assert out == "no differences: every message would have had the same fate\n"
    (tmp_path / "dlx.toml").unlink()
    _, out, _ = replayed(dlx, recording.root, file)
    assert "limited" in out
