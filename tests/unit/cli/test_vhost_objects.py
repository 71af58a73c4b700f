"""`list` and `show` of `dlx exchanges|bindings|policies|permissions` and of `dlx clients`."""

import csv
import io
import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from streaming.broker import commands
from streaming.ledger.schema.schemas import QUARANTINE
from streaming.ledger.write.arrow_columns import Constant, build_table
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import QUERY_ID, Recording, apart
from topology.declarations import Policy

CLIENTS = ("clients channels", "clients consumers", "clients connections")
NOUNS = ("exchanges", "bindings", "policies", "permissions", *CLIENTS)


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """The tables of a job with two vhosts, policies, permissions and consumers."""
    root = tmp_path_factory.mktemp("office")
    main, test = Broker(), apart(Broker(vhost="test"), 100)
    recording = Recording(root, main, test)
    main.exchange("orders", "topic", arguments={"alternate-exchange": "unrouted"})
    main.exchange("unrouted", "fanout")
    main.exchange("gone", "direct")
    main.queue("work", message_ttl=60_000)
    main.quorum("audit")
    main.queue("gone")
    main.bind("orders", "work", "order.#")
    main.bind("orders", "audit", "#", arguments={"n": 1})
    main.bind("unrouted", "orders", destination_type="exchange")
    main.bind("gone", "work", "x")
    main.bind("orders", "gone", "y")
    dlx_policy = Policy("DLX", "^work$", {"dead-letter-exchange": "unrouted"}, 5, "queues")
    main.do(commands.SetPolicy(policy=dlx_policy))
    main.policy("tight", "^work$", {"max-length": 10}, operator=True)
    main.policy("old", ".*", {"max-length": 1})
    set_anna = commands.SetPermissions(user="anna", configure="", write="^orders$", read=".*")
    main.do(set_anna)
    main.do(commands.SetPermissions(user="old", configure="", write="", read=""))
    test.queue("work")
    recording.commit()
    main.do(commands.DeleteQueue(queue="gone"))
    main.do(commands.DeleteExchange(exchange="gone"))
    main.do(commands.ClearPolicy(name="old"))
    main.do(commands.ClearPermissions(user="old"))
    main.do(commands.OpenChannel(channel="clerk", lease_ms=60_000), user="anna")
    main.do(commands.OpenChannel(channel="closed", lease_ms=None), user="bert")
    main.do(commands.CloseChannel(channel="closed"), user="bert")
    main.publish("orders", "order.eu", "order 0", channel="web")
    consume = commands.Consume(queue="work", label="c-1", prefetch=5, channel="clerk")
    main.do(consume, user="anna")
    stopped = commands.Consume(queue="audit", label="c-2", auto_ack=True, channel="clerk")
    main.do(stopped, user="anna")
    main.do(commands.Cancel(label="c-2", channel="clerk"), user="anna")
    recording.commit()
    records = build_table(
        QUARANTINE,
        {
            "query_id": Constant(QUERY_ID),
            "batch_id": Constant(1),
            "topic_number": Constant(0),
            "partition": Constant(3),
            "offset": [7, 8],
            "origin.topic": Constant("dlx.publishes"),
            "origin.timestamp": pa.array([START_MS * 1000] * 2, pa.timestamp("us", tz="UTC")),
            "cause": ["bad_json", "unknown_op"],
            "detail": ["no JSON at byte 3", "no op 'pblish'"],
            "record_value": [b"{{{", b"\xff"],
        },
        2,
    )
    write_deltalake(str(root / "quarantine"), records, mode="append")
    recording.close()
    return root


@pytest.fixture
def rows(dlx, office):
    """A function that runs a listing and returns its rows."""

    def run(*arguments):
        status, out, err = dlx(*arguments, "-o", "json", "--tables", office)
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


def test_queues_have_the_policy_that_applies_and_where_dead_letters_go(rows):
    found = {(row["vhost"], row["name"]): row for row in rows("queues", "list")}

    assert list(found) == [("/", "audit"), ("/", "work"), ("test", "work")]
    work = found["/", "work"]
    assert work["policy"] == "DLX"
    assert work["operator_policy"] == "tight"
    assert work["dead_letter_exchange"] == "unrouted"
    assert work["arguments"] == {"x-message-ttl": 60_000}
    assert work["effective_settings"]["max_length"] == 10
    assert (work["consumers"], work["messages_unacknowledged"]) == (1, 1)
    assert found["/", "audit"]["type"] == "quorum"
    assert found["test", "work"]["policy"] is None


def test_exchanges_are_those_declared_now(rows):
    found = {row["name"]: row for row in rows("exchanges", "list", "--vhost", "/")}

    assert set(found) == {"", "orders", "unrouted"} | {
        f"amq.{name}" for name in ("direct", "fanout", "headers", "match", "topic")
    }
    assert (
        found["orders"].items()
        >= {
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "bindings": 2,
            "alternate_exchange": "unrouted",
            "arguments": {"alternate-exchange": "unrouted"},
        }.items()
    )


def test_bindings_end_with_their_queue_and_exchange(rows):
    names = ("source_name", "destination_name", "destination_kind", "routing_key", "arguments")
    found = rows("bindings", "list")

    assert [[row[name] for name in names] for row in found] == [
        ["orders", "audit", "queue", "#", {"n": 1}],
        ["orders", "work", "queue", "order.#", {}],
        ["unrouted", "orders", "exchange", "", {}],
    ]
    assert rows("bindings", "show", "unrouted") == found[2:]
    assert rows("bindings", "show", "work") == found[1:2]
    assert rows("bindings", "show", "amq.topic") == []


def test_policies_say_how_many_objects_they_govern(rows):
    found = [(row["name"], row["operator"], row["applies"]) for row in rows("policies", "list")]

    assert found == [("DLX", False, 1), ("tight", True, 1)]
    [shown] = rows("policies", "show", "DLX")
    assert shown["definition"] == {"dead-letter-exchange": "unrouted"}
    assert shown["apply-to"] == "queues"


def test_permissions_are_those_set_now(rows):
    assert rows("permissions", "list") == [
        {"user": "anna", "vhost": "/", "configure": "", "write": "^orders$", "read": ".*"}
    ]


def test_open_channels_have_their_consumers_and_unacked_messages(rows):
    [channel] = [row for row in rows("clients", "channels", "list") if row["name"] == "clerk"]

    assert (
        channel.items()
        >= {
            "vhost": "/",
            "user": "anna",
            "consumer_count": 1,
            "messages_unacknowledged": 1,
            "lease_ms": 60_000,
        }.items()
    )
    assert "closed" not in {row["name"] for row in rows("clients", "channels", "list")}


def test_consumers_are_those_that_were_not_cancelled(rows):
    [consumer] = rows("clients", "consumers", "list")

    assert (
        consumer.items()
        >= {
            "queue_name": "work",
            "channel": "clerk",
            "consumer_tag": "c-1",
            "ack_required": True,
            "prefetch_count": 5,
            "exclusive": False,
            "priority": 0,
            "active": True,
            "user": "anna",
        }.items()
    )


def test_a_connection_is_a_user_with_open_channels(rows):
    [anna] = rows("clients", "connections", "show", "anna")

    assert (anna["channels"], anna["consumers"], anna["messages_unacknowledged"]) == (1, 1, 1)
    assert "bert" not in {row["user"] for row in rows("clients", "connections", "list")}


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (("exchanges", "show", "ordres"), "orders"),
        (("bindings", "show", "aduit"), "audit"),
        (("policies", "show", "DXL"), "DLX"),
        (("permissions", "show", "ana"), "anna"),
        (("clients", "channels", "show", "clark"), "clerk"),
        (("clients", "consumers", "show", "c-11"), "c-1"),
        (("clients", "connections", "show", "ana"), "anna"),
        (("queues", "show", "wrok"), "work"),
        (("queues", "peek", "wrok"), "work"),
        (("quarantine", "list", "--cause", "bad_jsn"), "bad_json"),
        (("quarantine", "list", "--topic", "dlx.publihes"), "dlx.publishes"),
        *(((*noun.split(), "list", "--vhost", "tst"), "test") for noun in (*NOUNS, "queues")),
        (("queues", "peek", "work", "--vhost", "tst"), "test"),
        (("balance", "--vhost", "tst"), "test"),
        (("overview", "--vhost", "tst"), "test"),
        (("dead-letters", "list", "--vhost", "tst"), "test"),
    ],
    ids=str,
)
def test_a_misspelt_name_is_an_error_with_the_known_one(dlx, office, command, known):
    for more in ([], ["-o", "json"]):
        status, out, err = dlx(*command, *more, "--tables", office)

        assert (status, out) == (2, "")
        assert f"did you mean {known!r}?" in err
        assert len(err.splitlines()) == 1


def test_a_deleted_queue_is_said_to_be_deleted(dlx, office):
    status, out, err = dlx("queues", "show", "gone", "--tables", office)

    assert (status, out) == (2, "")
    assert "queue 'gone' was deleted" in err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("policies", "list", "--vhost", "test"), "no policies in vhost 'test'"),
        (("clients", "consumers", "list", "--vhost", "test"), "no consumers in vhost 'test'"),
        (("bindings", "show", "amq.topic"), "'amq.topic' has no bindings"),
        (("clients", "connections", "show", "bert"), "'bert' has no connections"),
        (("permissions", "show", "bert"), "'bert' has no permissions"),
        (("queues", "peek", "audit", "--unacked"), "no message is unacked in queue 'audit'"),
        (("dead-letters", "list", "--queue", "gone"), "no dead letters in queue 'gone'"),
    ],
    ids=str,
)
def test_a_name_that_exists_but_has_nothing_is_not_an_error(dlx, office, command, words):
    assert dlx(*command, "--tables", office) == (0, f"{words}\n", "")


def test_an_empty_quarantine_is_said_to_be_of_the_filter(dlx, office, shop_root):
    """The empty one cannot know a cause, and the other has the cause on another topic."""
    listed = ("quarantine", "list", "--cause")
    for root, (cause, *more), words in (
        (shop_root, ["nope"], "no record with cause 'nope' is in quarantine\n"),
        (shop_root, ["nope", "--topic", "t"], "no record with cause 'nope' of topic 't' is in "),
        (office, ["bad_json", "--until", "2020-01-01"], "no record with cause 'bad_json' is in "),
    ):
        status, out, err = dlx(*listed, cause, *more, "--tables", root)
        assert (status, err) == (0, "")
        assert out.startswith(words)


@pytest.mark.parametrize("noun", [*NOUNS, "queues", "quarantine", "dead-letters"])
def test_every_listing_has_csv_and_chosen_columns(dlx, office, noun):
    _, out, _ = dlx(*noun.split(), "list", "-o", "csv", "--tables", office)
    header = next(csv.reader(io.StringIO(out)))
    status, out, err = dlx(*noun.split(), "list", "--columns", "nmae", "--tables", office)

    assert len(header) == len(set(header)) > 3
    assert (status, out) == (2, "")
    assert "there is no column 'nmae'" in err
    assert header[0] in err


def test_the_overview_counts_by_vhost(rows):
    [found] = rows("overview")

    assert (found["batch_id"], found["quarantined"]) == (1, 2)
    main, test = found["vhosts"]
    assert (
        main.items()
        >= {
            "vhost": "/",
            "queues": 2,
            "consumers": 1,
            "messages": 1,
            "messages_ready": 0,
            "messages_unacknowledged": 1,
            "published_last_minute": 1,
            "delivered_last_minute": 2,
        }.items()
    )
    assert (test["vhost"], test["queues"], test["messages"]) == ("test", 1, 0)


def test_quarantined_records_are_listed_and_shown_with_their_bytes(rows, dlx, office):
    listed = rows("quarantine", "list", "--since", "2020-01-01")
    [shown] = rows("quarantine", "show", "0/3/8")

    assert [(row["id"], row["cause"]) for row in listed] == [
        ("0/3/8", "unknown_op"),
        ("0/3/7", "bad_json"),
    ]
    assert shown["record_value"] == {"$bytes": "/w=="}
    assert listed[1]["record_value"] == "{{{"
    assert rows("quarantine", "list", "--cause", "bad_json") == listed[1:]
    assert rows("quarantine", "list", "--until", "2020-01-01") == []
    assert dlx("quarantine", "show", "0/3/9", "--tables", office)[0] == 2
    assert dlx("quarantine", "show", "nine", "--tables", office)[0] == 2


def test_what_is_left_out_is_counted(dlx, office):
    status, out, err = dlx(
        "quarantine", "list", "--limit", "1", "--sort", "id", "-o", "json", "--tables", office
    )

    assert (status, json.loads(out)["id"]) == (0, "0/3/7")
    assert err == "1 of 2 records; --limit 0 for all\n"


def test_known_names_are_said_once(dlx, office):
    status, out, err = dlx("permissions", "show", "zzzzzzzz", "--tables", office)

    assert (status, out) == (2, "")
    assert err.count("'anna'") == 1


def test_an_unknown_queue_without_a_similar_one_says_where_queues_are_listed(dlx, office):
    status, out, err = dlx("queues", "peek", "zzzzzzzz", "--tables", office)

    assert (status, out) == (2, "")
    assert "`dlx queues list`" in err


@pytest.mark.parametrize("key", ["destination_type", "destination_kind"])
def test_bindings_have_rabbitmqs_two_names_of_the_kind_of_destination(rows, key):
    assert [row[key] for row in rows("bindings", "list")] == ["queue", "queue", "exchange"]


def test_vhosts_that_differ_and_dead_letter_targets_stay_at_80_columns(dlx, office, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    queues, balance = (
        dlx(*command, "--tables", office)[1].splitlines()[0].split()
        for command in (("queues", "list"), ("balance",))
    )

    assert {"vhost", "name"} <= {*queues}
    assert {"dead_letter", "dead_letter_exchange"} & {*queues}
    assert {"vhost", "queue"} <= {*balance}


def test_the_balance_of_one_message_fits_80_columns(dlx, office):
    _, out, _ = dlx("balance", "--tables", office)
    lines = [line for line in out.splitlines() if line.startswith("vhost '/'")]

    assert [len(line) <= 80 and "1 message published" in line for line in lines] == [True]
