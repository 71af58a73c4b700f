"""A page that asks for too much says so, and its query ends."""

import duckdb
import pytest

from streaming.console import reader
from streaming.console.reader import BudgetError, Reader
from streaming.queries.duckdb_tables import QueryError
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
