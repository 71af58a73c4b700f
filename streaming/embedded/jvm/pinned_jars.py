"""The lock files: the exact jars of each class path.

`locks/*.lock.toml` (`s3`, `azure` and `gcs` are what `s3a://`, `abfss://` and `gs://` need beside
Spark) have the format of jgo's lock files (jgo can load and check them), plus a size for progress
bars and an optional reason. They list every jar of a class path: dlx resolves no dependencies and
reads no POM. To change a version, edit the coordinates and run `python -m tools.relock`.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

JarSet = Literal["kafka", "spark", "s3", "azure", "gcs"]


@dataclass(frozen=True, slots=True)
class Jar:
    """One jar of a class path.

    Attributes:
        why: why it is needed, unless that is obvious.
        classifier: tells it from other jars of the same coordinate; most have none.
    """

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int
    why: str = ""
    classifier: str = ""

    @property
    def coordinate(self) -> str:
        """`group:artifact:version`, and the classifier if there is one."""
        parts = (self.group, self.artifact, self.version, self.classifier)
        return ":".join(part for part in parts if part)

    @property
    def path(self) -> Path:
        """Path of the jar in a Maven repository."""
        folder = Path(*self.group.split("."), self.artifact, self.version)
        name = "-".join(part for part in (self.artifact, self.version, self.classifier) if part)
        return folder / f"{name}.jar"


def lock_file(which: JarSet) -> Path:
    """The shipped lock of a class path."""
    return Path(__file__).parent / "locks" / f"{which}.lock.toml"


def read_lock(path: Path) -> tuple[Jar, ...]:
    """Read a lock file, in class path order."""
    with path.open("rb") as opened:
        document = tomllib.load(opened)
    return tuple(
        Jar(
            group=entry["groupId"],
            artifact=entry["artifactId"],
            version=entry["version"],
            sha256=entry["sha256"],
            size_bytes=entry["size_bytes"],
            why=entry.get("why", ""),
            classifier=entry.get("classifier", ""),
        )
        for entry in document["dependencies"]
    )
