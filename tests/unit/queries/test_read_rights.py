"""A user sees the bodies and headers of no dead letter that he may not read."""

import pytest

from streaming.broker import commands
from streaming.queries import DeadLetterFilter, RedriveWish, open_tables
from streaming.queries.duckdb_tables import QueryError
from tests.builders import Broker
from tests.unit.queries.recording import Recording

ANN = "ann"
EVERYTHING = DeadLetterFilter()
SECRET = DeadLetterFilter(where="decode(body) LIKE '%secret%'")


@pytest.fixture
def root(tmp_path):
    """Letters of `work` in `graveyard` and of `mail` in `bounced`; of `lossy`, in no queue.

    The last message reached no queue.

    Ann may read `work`, `bounced` and `lossy`, Bob everything.
    """
    broker = Broker()
    recording = Recording(tmp_path, broker)
    for name, target in (("work", "graveyard"), ("mail", "bounced"), ("lossy", None)):
        dead = {"dead_letter_exchange": "", "dead_letter_routing_key": target} if target else {}
        broker.queue(name, **dead)
        if target:
            broker.queue(target)
        for number in range(2):
            headers = {"x-exception": f"secret of {name}"}
            broker.publish("", name, f"secret {name} {number}", headers=headers, type="order")
        broker.reject(*(one.ref for one in broker.get(name, name, 2)))
    broker.publish("", "nowhere", "secret of nobody")
    rights = {"configure": "", "write": ".*"}
    broker.do(commands.SetPermissions(user=ANN, read="^(work|bounced|lossy)$", **rights))
    broker.do(commands.SetPermissions(user="bob", read=".*", **rights))
    recording.commit()
    return str(tmp_path)


def contents(queries, wanted=EVERYTHING):
    columns = ("body", "headers", "properties", "kafka_headers")
    return {
        row["message_id"]: any(row[column] for column in columns)
        for row in queries.dead_letters(wanted)
    }


def test_contents_are_hidden_by_the_queue_that_has_the_letter(root):
    with open_tables(root, user=ANN) as queries:
        found = contents(queries)
    with open_tables(root, user="bob") as queries:
        assert all(contents(queries).values())

    hidden = ["0/0/0", "0/0/1"]
    assert found == {f"0/0/{number}": f"0/0/{number}" not in hidden for number in range(6)}


@pytest.mark.parametrize(
    "wanted",
    [
        SECRET,
        DeadLetterFilter(headers=(("x-exception", None),)),
        DeadLetterFilter(where="properties.type = 'order'"),
        DeadLetterFilter(cause="secret of work"),
    ],
    ids=str,
)
def test_no_condition_finds_what_is_hidden(root, wanted):
    with open_tables(root, user=ANN) as queries:
        found = set(contents(queries, wanted))
        causes = {row["cause"] for row in queries.dead_letter_groups(["cause"])}
        with pytest.raises(QueryError, match="refused"):
            contents(queries, DeadLetterFilter(where="(SELECT count(*) FROM messages) > 0"))

    assert not found & {"0/0/0", "0/0/1"}
    assert "secret of work" not in causes


def test_a_plan_over_bodies_has_no_letter_that_is_hidden(root):
    with open_tables(root) as queries:
        plan = queries.plan_redrive(RedriveWish(wanted=SECRET, user=ANN))
        everything = queries.plan_redrive(RedriveWish(wanted=SECRET))
        with pytest.raises(QueryError, match=r"403 .*read access to queue 'graveyard'"):
            queries.plan_redrive(RedriveWish(wanted=DeadLetterFilter(), user=ANN))
        assert all(contents(queries).values())

    assert {letter.queue for letter in plan.sealed.letters} == {"bounced"}
    assert {letter.queue for letter in everything.sealed.letters} == {"bounced", "graveyard"}


def test_the_history_of_a_hidden_message_and_a_peek_show_no_content(root):
    with open_tables(root, user=ANN) as queries:
        hidden, shown = queries.history("0/0/0"), queries.history("0/0/2")
        with pytest.raises(QueryError, match=r"403 .*read access to queue 'graveyard'"):
            queries.peek("graveyard")
        assert len(queries.peek("bounced")) == 2

    assert hidden.message is not None
    assert shown.message is not None
    assert (hidden.hidden_in, hidden.message["body"], hidden.message["headers"]) == (
        ["graveyard"],
        None,
        None,
    )
    assert all(death["body"] is None for death in hidden.deaths.values())
    assert hidden.hidden == "You may not read graveyard"
    assert (shown.hidden, shown.hidden_in, shown.message["body"]) == (None, [], "secret mail 0")


def test_no_right_to_a_queue_shows_a_message_that_reached_none(root):
    with open_tables(root, user=ANN) as queries:
        hidden = queries.history("0/0/6")
    with open_tables(root) as queries:
        shown = queries.history("0/0/6")

    assert hidden.message is not None
    assert shown.message is not None
    assert (hidden.hidden_in, hidden.message["body"]) == ([], None)
    assert hidden.hidden == (
        "No queue is known that had it, and only the right to read one would show it"
    )
    assert (shown.hidden, shown.message["body"]) == (None, "secret of nobody")


@pytest.mark.parametrize(
    ("places", "targets", "may_read"),
    [
        (["work"], [["bounced"]], True),
        (["work"], [["bounced", "graveyard"]], True),
        (["work"], [["bounced"], ["graveyard"]], False),
        (["work"], [["graveyard"]], False),
        (["work"], [[]], True),
        (["graveyard", "work"], [], True),
        (["graveyard"], [], False),
        ([], [], False),
    ],
    ids=str,
)
def test_every_death_of_a_message_hides_it_but_one_queue_shows_one_that_never_died(
    root, places, targets, may_read
):
    deaths = [{"vhost": "/", "queue": "work", "targets": each} for each in targets]
    with open_tables(root, user=ANN) as queries:
        rights = queries.tables.rights

    assert rights is not None
    assert rights.may_read_message([("/", name) for name in places], deaths) is may_read


def test_nobody_without_permissions_reads_anything_but_administrators(root):
    with open_tables(root, user="eve") as queries:
        assert not any(contents(queries).values())
    with open_tables(root, user="eve", administrators=["eve"]) as queries:
        assert all(contents(queries).values())
