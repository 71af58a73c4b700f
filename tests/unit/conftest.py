"""Read-only tables, made once for the tests of queries and of commands."""

import shutil

import pytest


@pytest.fixture(scope="session")
def shop_root(tmp_path_factory):
    """The tables of the shop (tests/unit/queries/shop.py), queue_contents included."""
    from streaming.contents.updater import ContentsUpdater
    from tests.unit.queries.shop import a_shop

    recording = a_shop(tmp_path_factory.mktemp("shop") / "tables")
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


@pytest.fixture
def copy_of_shop(shop_root, tmp_path):
    """A copy of the shop's tables, to be damaged."""
    return shutil.copytree(shop_root, tmp_path / "tables")
