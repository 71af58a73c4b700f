"""Tables that are only looked at, made once."""

import pytest

from streaming.tables.contents import ContentsUpdater
from streaming.tables.snapshot import Tables
from tests.unit.tables.shop import a_shop


@pytest.fixture(scope="session")
def shop_root(tmp_path_factory):
    """The tables of the shop, queue_contents included."""
    recording = a_shop(tmp_path_factory.mktemp("shop") / "tables")
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


@pytest.fixture
def shop(shop_root):
    """The same, opened."""
    tables = Tables(shop_root)
    yield tables
    tables.close()
