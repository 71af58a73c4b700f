"""Places in HDFS that cannot be used are refused in words; tests/e2e has a real HDFS."""

import sys

import pytest

from streaming.storage.hdfs import HdfsStorage
from streaming.storage.location import Location
from streaming.storage.port import StoreError


def test_a_url_without_a_name_node_is_refused():
    with pytest.raises(StoreError, match=r"hdfs:///tables: the URL has no name node"):
        Location("hdfs:///tables").storage()


def test_without_the_client_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    files = HdfsStorage("hdfs://without-a-client:8020/tables")

    with pytest.raises(StoreError, match=r"not installed: pip install 'dlx-stream\[hdfs\]'"):
        files.size("a")
