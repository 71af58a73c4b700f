import os
import subprocess
import sys
from pathlib import Path

from streaming.spark.scratch import Scratch

MAKE_AND_DIE = """
import os, pathlib, signal, sys
from streaming.spark.scratch import Scratch
scratch = Scratch.make(pathlib.Path(sys.argv[1]))
scratch.folder("spark").joinpath("rocksdb").touch()
print(scratch.path, scratch.sockets, sep="\\n", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
ROOT = Path(__file__).resolve().parents[3]


def test_a_scratch_folder_is_private_and_removed_with_its_contents(tmp_path):
    scratch = Scratch.make(tmp_path / "work")
    folder, sockets = scratch.folder("spark"), scratch.sockets
    (folder / "file").touch()
    modes = [path.stat().st_mode & 0o777 for path in (scratch.path, sockets)]

    scratch.remove()

    assert modes == [0o700, 0o700]
    assert (folder.parent, list((tmp_path / "work").iterdir())) == (scratch.path, [])
    assert not sockets.exists()


def test_the_path_of_sockets_is_short_however_deep_the_folder(tmp_path):
    deep = tmp_path / ("deep" * 20) / ("deeper" * 20)
    scratch = Scratch.make(deep)
    length = len(os.fsencode(scratch.sockets))
    scratch.remove()

    assert length < 60


def test_folders_of_a_killed_process_are_removed_by_the_next(tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", MAKE_AND_DIE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    left = [Path(path) for path in killed.stdout.splitlines()]
    existed = [path.exists() for path in left]

    scratch = Scratch.make(tmp_path)

    assert existed == [True, True]
    assert [path.exists() for path in left] == [False, False]
    assert list(tmp_path.iterdir()) == [scratch.path]
    scratch.remove()


def test_a_folder_in_use_is_kept(tmp_path):
    one = Scratch.make(tmp_path)
    other = Scratch.make(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {one.path.name, other.path.name}
    one.remove()
    other.remove()


def test_folders_without_a_lock_are_kept(tmp_path):
    (tmp_path / "session-of-mine").mkdir()

    Scratch.make(tmp_path).remove()

    assert [path.name for path in tmp_path.iterdir()] == ["session-of-mine"]
