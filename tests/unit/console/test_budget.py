"""A page that asks for too much says so, and its query ends."""

import duckdb
import pytest

from streaming.console import reader
from streaming.console.reader import BudgetError, Reader
from streaming.queries.duckdb_tables import QueryError, new_engine
from tests.fixtures.waiting import wait_until


@pytest.mark.parametrize("raised", [duckdb.InterruptException, duckdb.OutOfMemoryException])
def test_an_interrupted_query_is_an_error_for_the_user(shop_root, raised):
    with pytest.raises(BudgetError), Reader(shop_root).open():
        raise raised("of the engine")


def test_a_query_ends_with_its_budget(shop_root, monkeypatch):
    monkeypatch.setattr(reader, "BUDGET_S", 0.01)
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"

    with pytest.raises(BudgetError), Reader(shop_root).open() as tables:
        tables.connection.execute(endless).fetchall()


def test_a_page_beyond_its_budget_is_refused_and_not_a_failure(make_client, shop_root, monkeypatch):
    client = make_client(shop_root)
    monkeypatch.setattr(reader, "MEMORY", "1KB")

    answers = [client.get("/balance")]

    def is_drawn():
        answers.append(client.get("/balance"))
        return 'id="drawing"' not in answers[-1].text

    wait_until(is_drawn, lambda: answers[-1].text)
    assert answers[-1].status_code == 400
    assert "narrow" in answers[-1].text


@pytest.mark.parametrize(
    ("raised", "words"),
    [(duckdb.InterruptException, "longer than"), (duckdb.OutOfMemoryException, "512MB of memory")],
)
def test_a_budget_that_is_taken_for_a_mistake_in_sql_is_said_as_one(shop_root, raised, words):
    def question():
        try:
            raise raised("of the engine")
        except duckdb.Error as error:
            raise QueryError(f"INTERRUPT Error: {error}") from None

    with pytest.raises(BudgetError, match=words), Reader(shop_root).open():
        question()


def test_another_mistake_stays_one(shop_root):
    with pytest.raises(QueryError, match="no such") as said, Reader(shop_root).open():
        raise QueryError("no such column")

    assert not isinstance(said.value, BudgetError)


def count_engines(monkeypatch):
    """The engines that a console makes from now on."""
    made = []

    def make(threads):
        made.append(new_engine(threads))
        return made[-1]

    monkeypatch.setattr(reader, "new_engine", make)
    return made


def test_a_page_finds_nothing_of_the_page_whose_engine_it_uses(shop_root, monkeypatch):
    made = count_engines(monkeypatch)
    pages = Reader(shop_root)
    with pages.open() as tables:
        tables.view("events")
        tables.connection.execute("CREATE TEMP TABLE found AS FROM events")
        tables.connection.execute("SET TimeZone = 'Europe/Berlin'")
        assert tables.values("SELECT count(*) > 0 FROM found") == [(True,)]
    monkeypatch.setattr(reader, "MEMORY", "256MiB")

    with pages.open() as tables:
        assert tables.values("SELECT table_name FROM information_schema.tables") == []
        assert tables.values(
            "SELECT current_setting('TimeZone'), current_setting('memory_limit'), "
            "current_setting('preserve_insertion_order')"
        ) == [("UTC", "256.0 MiB", False)]
        with pages.open() as beside:
            assert beside.values("SELECT 1") == [(1,)]

    assert len(made) == 2  # one page at a time has an engine
    pages.stop()
    with pytest.raises(BudgetError, match="ends"), pages.open():
        pass


def test_an_engine_that_failed_is_not_used_again(shop_root, monkeypatch):
    made = count_engines(monkeypatch)
    pages = Reader(shop_root)
    for _ in range(2):
        with pytest.raises(BudgetError), pages.open():
            raise duckdb.OutOfMemoryException("of the engine")

    assert len(made) == 2
