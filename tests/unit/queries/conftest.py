"""The shop's tables, opened."""

import pytest

from streaming.queries.duckdb_tables import Tables


@pytest.fixture
def shop(shop_root):
    """Read-only tables of the shop."""
    tables = Tables(shop_root)
    yield tables
    tables.close()
