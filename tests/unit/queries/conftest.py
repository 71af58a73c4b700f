"""The shop's tables, opened."""

import pytest

from streaming.queries.duckdb_tables import Tables


@pytest.fixture
def shop(shop_root):
    """Tables that are only looked at."""
    tables = Tables(shop_root)
    yield tables
    tables.close()
