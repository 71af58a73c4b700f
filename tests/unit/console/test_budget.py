"""A page that asks for too much says so, and its query ends."""

import duckdb
import pytest

from streaming.console import reader
from streaming.console.reader import BudgetError, Reader


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

    answer = client.get("/balance")

    assert answer.status_code == 400
    assert "narrow" in answer.text
