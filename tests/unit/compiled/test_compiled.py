"""The compiled core has the outcomes of the plain one, and is never used when outdated."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.compiled import SOURCES, UNCOMPILED, VARIABLE, modules, sources_digest
from streaming.compiled import build as build_module
from streaming.compiled.build import BuildError, build
from tests.recordings import unpack

CHECKOUT = Path(__file__).resolve().parents[3]
WHICH_CORE = "import streaming.broker.shard as s; print(s.__file__)"


def run_python(arguments: list[str], wanted: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, VARIABLE: wanted},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("note", [None, "another digest"])
def test_a_build_of_other_sources_is_ignored_with_a_warning(tmp_path, note):
    if note is not None:
        (tmp_path / SOURCES).write_text(note)
    done = run_python(["-c", WHICH_CORE], str(tmp_path))
    assert done.stdout.strip() == str(CHECKOUT / "streaming/broker/shard.py")
    assert "holds no build of these sources" in done.stderr
    assert "dlx compile" in done.stderr


def test_an_unset_variable_and_zero_select_plain_python():
    for wanted in ("", "0"):
        done = run_python(["-c", WHICH_CORE], wanted)
        assert (done.stdout.strip(), done.stderr) == (
            str(CHECKOUT / "streaming/broker/shard.py"),
            "",
        )


def test_modules_with_structs_stay_plain_python():
    broker = CHECKOUT / "streaming/broker"
    with_structs = {
        ".".join(path.relative_to(broker).with_suffix("").parts)
        for path in broker.rglob("*.py")
        if "(msgspec.Struct" in path.read_text("utf-8")
    }

    assert with_structs
    assert with_structs <= set(UNCOMPILED)


def test_the_digest_depends_on_the_sources(tmp_path):
    for folder in ("streaming/broker", "topology"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder)
    assert sources_digest(tmp_path) == sources_digest()
    with (tmp_path / "streaming/broker/shard.py").open("a") as file:
        file.write("# changed\n")
    assert sources_digest(tmp_path) != sources_digest()


def test_without_a_c_compiler_the_build_is_refused_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="no C compiler"):
        build(tmp_path / "build")
    assert not (tmp_path / "build").exists()


def test_every_module_of_the_broker_is_compiled_or_listed_with_a_reason():
    broker = CHECKOUT / "streaming/broker"
    names = {
        ".".join(path.relative_to(broker).with_suffix("").parts) for path in broker.rglob("*.py")
    }
    packages = {name for name in names if name.endswith(".__init__")}

    assert set(modules()) | set(UNCOMPILED) == names - packages
    assert set(modules()).isdisjoint(UNCOMPILED)
    assert {"shard", "queues.classic", "dead_letters.dead_lettering"} <= set(modules())


def test_modules_with_structs_are_not_compiled():
    """A compiled struct has lost its options: a page of copies could not be read."""
    broker = CHECKOUT / "streaming/broker"
    texts = {name: (broker / (name.replace(".", "/") + ".py")).read_text() for name in modules()}

    assert [name for name, text in texts.items() if "msgspec.Struct" in text] == []


def test_a_build_that_lacks_a_module_is_refused(tmp_path):
    (tmp_path / "streaming/broker").mkdir(parents=True)
    (tmp_path / "streaming/broker/shard.cpython-311.so").touch()

    with pytest.raises(BuildError, match=r"streaming/broker/clock\.py"):
        build_module._check_complete(  # noqa: SLF001 - a build takes minutes
            tmp_path, ["streaming/broker/shard.py", "streaming/broker/clock.py"]
        )


COMPILER = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
LIST_FILES = """
import importlib
from streaming.compiled import modules
for name in modules():
    print(importlib.import_module(f"streaming.broker.{name}").__file__)
"""


@pytest.mark.long
@pytest.mark.skipif(not COMPILER, reason="there is no C compiler to build with")
def test_the_compiled_core_has_the_same_outcomes_as_the_plain_one(tmp_path, monkeypatch):
    folder = tmp_path / "build"
    quick = build_module._SETUP.replace('opt_level="3"', 'opt_level="0"')  # noqa: SLF001
    monkeypatch.setattr(build_module, "_SETUP", quick)  # gcc takes minutes to optimise
    build(folder)
    files = run_python(["-c", LIST_FILES], str(folder)).stdout.splitlines()
    assert len(files) == len(modules())
    assert all(file.startswith(str(folder)) for file in files)
    recordings = unpack(tmp_path)
    inputs = [str(CHECKOUT / "examples"), str(tmp_path / "golden"), str(tmp_path / "fuzz")]
    command = ["-m", "streaming.cli", "simulate", "--json", *inputs]
    plain, compiled = (run_python(command, wanted) for wanted in ("", str(folder)))
    assert plain.returncode == compiled.returncode == 0
    assert compiled.stdout == plain.stdout
    assert len(plain.stdout.splitlines()) == recordings + len(
        list(CHECKOUT.glob("examples/*.json"))
    )
