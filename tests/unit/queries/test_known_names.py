"""The names that the tables know."""

import pytest

from streaming.broker import commands
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.vhosts.known_names import known_names, require_known
from tests.builders import Broker
from tests.unit.queries.recording import Recording, apart


@pytest.fixture
def tables(tmp_path):
    """Tables of two vhosts; a queue of the first was deleted."""
    main, test = Broker(), apart(Broker(vhost="test"), 100)
    recording = Recording(tmp_path, main, test)
    main.exchange("orders")
    main.queue("work")
    main.queue("gone")
    main.policy("DLX", "^work$", {"max-length": 10})
    main.policy("tight", "^work$", {"max-length": 5}, operator=True)
    main.do(commands.DeleteQueue(queue="gone"))
    main.do(commands.SetPermissions(user="clerk", configure="", write="", read=""))
    main.do(commands.OpenChannel(channel="web", lease_ms=None), user="anna")
    main.close_channel("web", user="anna")
    test.queue("other")
    recording.commit()
    recording.close()
    opened = Tables(str(tmp_path))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("noun", "names"),
    [
        ("vhost", ["/", "test"]),
        ("queue", ["gone", "work"]),
        ("policy", ["DLX"]),
        ("operator policy", ["tight"]),
        ("channel", ["web"]),
        ("user", ["anna", "clerk"]),
        ("connection", ["anna"]),
    ],
)
def test_names_are_those_of_the_vhost_also_past_ones(tables, noun, names):
    found = known_names(tables, noun, None if noun == "vhost" else "/")

    assert set(names) <= set(found)
    assert "other" not in found


def test_exchanges_include_the_predeclared_ones(tables):
    assert {"", "amq.topic", "orders"} <= set(known_names(tables, "exchange", "/"))


def test_an_unknown_name_is_refused_with_the_most_similar(tables):
    require_known(tables, "queue", "other")
    with pytest.raises(QueryError, match=r"no queue 'wrok' in vhost '/' \(did you mean 'work'"):
        require_known(tables, "queue", "wrok", "/")
    with pytest.raises(QueryError, match=r"no vhost 'tset' \(did you mean 'test'"):
        require_known(tables, "queue", "work", "tset")
