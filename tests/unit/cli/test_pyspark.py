"""`dlx spark pyspark`: its arguments, and what it runs. tests/spark/test_sql_shell.py has Spark."""

import io
import os
import sys
import tempfile

import pytest

from streaming.cli.tables import sql
from streaming.cli.tables.pyspark_session import run_python
from streaming.embedded.errors import EmbeddedError

NAMES = {"spark": "a session", "tables": {"events": "/there"}}


def test_without_tables_it_names_the_folder_and_starts_nothing(dlx, tmp_path):
    (tmp_path / "dlx.toml").write_text("")
    status, out, err = dlx("spark", "pyspark", "--config", tmp_path / "dlx.toml")
    assert (status, out) == (2, "")
    assert err.startswith(f"{tmp_path}/dlx.toml: job.tables_location: {tmp_path}/tables ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["here.py", "-e", "1"], "contradicts FILE"), (["nope.py"], "nope.py: no such file")],
)
def test_what_to_run_is_checked_first(dlx, write, arguments, said):
    write("", "here.py")
    status, out, err = dlx("spark", "pyspark", *arguments)
    assert (status, out) == (2, "")
    assert said in err


def test_a_file_gets_the_names_and_its_arguments_and_imports_its_neighbours(
    write, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "programs").mkdir()
    write("WORD = 'near'", "programs/neighbour_of_program.py")
    file = write(
        "import sys, neighbour_of_program as n\n"
        "print(spark, tables['events'], sys.argv[1:], n.WORD, __name__)",
        "programs/program.py",
    )

    assert run_python([file, "a", "-b"], None, NAMES) == 0
    assert capsys.readouterr().out == "a session /there ['a', '-b'] near __main__\n"


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("def f(): return spark\nassert f() == 'a session'", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('not today')", 2, "not today\n"),
        ("import sys; sys.exit()", 0, ""),
        ("1 / 0", 2, "ZeroDivisionError: division by zero\n"),
        ("1 +", 2, "SyntaxError: invalid syntax\n"),
    ],
)
def test_the_end_of_a_text_is_the_status(text, status, said, capsys, monkeypatch):
    assert run_python([], text, NAMES) == status
    assert capsys.readouterr().err.endswith(said)

    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert run_python([], None, NAMES) == status


def test_a_folder_that_others_may_write_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = sql.private_folder("here")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sql.private_folder("here") == folder

    folder.chmod(0o777)
    with pytest.raises(EmbeddedError, match="others may write there"):
        sql.private_folder("here")
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(EmbeddedError, match=f"dlx-here-{os.getuid()}"):
        sql.private_folder("here")
