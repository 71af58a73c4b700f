"""A file or folder that cannot be used is named in one line."""

import sys

import pytest

from streaming.cli.main import main
from tests.unit.queries.shop import a_shop


def test_tables_that_cannot_be_written_are_named(tmp_path, monkeypatch, capsys):
    a_shop(tmp_path)
    (tmp_path / "queue_contents").touch()
    monkeypatch.setattr(sys, "argv", ["dlx", "tables", "rebuild", "--tables", str(tmp_path)])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{tmp_path / 'queue_contents'}: File exists\n"
