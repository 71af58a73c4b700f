"""The lock files: which jars the embedded programs use, to the byte.

`locks/kafka.lock.toml` and `locks/spark.lock.toml` have the form of jgo's lock files (jgo can load
and check them), with two members more: a size, for progress bars, and a reason where one is needed.
They list every jar of a class path. Nothing is looked up in a dependency tree, hence no POM is
read, and nothing that is not listed here can come in. To change a version, edit the coordinates and
run `python -m streaming.embedded.jvm.relock`.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

JarSet = Literal["kafka", "spark"]


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of a class path.

    Attributes:
        group: Maven's groupId, such as `org.apache.kafka`.
        artifact: Maven's artifactId, such as `kafka-clients`.
        sha256: of the whole file, lower-case hexadecimal.
        size_bytes: of the whole file.
        why: the reason for it where the coordinates do not tell, or the empty string.
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int
    why: str = ""

    @property
    def coordinate(self) -> str:
        """`group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def path(self) -> Path:
        """Where the jar lies inside a Maven repository."""
        folder = Path(*self.group.split("."), self.artifact, self.version)
        return folder / f"{self.artifact}-{self.version}.jar"


def lock_file(which: JarSet) -> Path:
    """The lock that is shipped for a class path."""
    return Path(__file__).parent / "locks" / f"{which}.lock.toml"


def read_lock(path: Path) -> tuple[Jar, ...]:
    """Read a lock file, in class path order."""
    with path.open("rb") as opened:
        document = tomllib.load(opened)
    return tuple(_jar(entry) for entry in document["dependencies"])


def _jar(entry: dict[str, Any]) -> Jar:
    return Jar(
        group=entry["groupId"],
        artifact=entry["artifactId"],
        version=entry["version"],
        sha256=entry["sha256"],
        size_bytes=entry["size_bytes"],
        why=entry.get("why", ""),
    )
