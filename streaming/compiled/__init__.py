"""The broker's core as C: an optional build of the very same sources by mypyc.

    dlx compile                   builds into the user's cache, for this Python and these sources
    DLX_COMPILED=1 dlx run ...    takes the modules of that build instead of the Python ones
    DLX_COMPILED=DIR              the same, for a build elsewhere

Outcomes are equal; only time differs. A build of other sources, or none, is never used: the plain
Python runs, and a warning says so. The variable reaches Spark's Python workers with the rest of the
environment.
"""

import os
import sys
import sysconfig
import warnings
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

from streaming.user_folders import user_cache_folder

VARIABLE = "DLX_COMPILED"
SOURCES = "sources"
"""The file of a build that holds the digest of what it was built from; written last."""

UNCOMPILED = {
    "__init__": "empty",
    "commands": "msgspec structs",
    "config": "msgspec structs",
    "lanes": "msgspec structs",
    "message": "msgspec structs",
    "outbound": "msgspec structs",
    "rebuilt_shard": "msgspec structs",
    "redrives.agreement": "msgspec structs",
    "redrives.records": "msgspec structs",
    "sequence.digest": "msgspec structs",
    "sequence.fold": "msgspec structs",
    "state.encoding": "msgspec structs",
    "state.page_records": "msgspec structs",
    "state.schema": "msgspec structs",
    "state.vhost_codec": "msgspec structs",
}
"""Modules of `streaming.broker` that stay plain Python, and why; mypyc cannot compile structs."""

PACKAGES = ("streaming", "topology")
ROOT = Path(__file__).resolve().parents[2]


def sources_digest(root: Path = ROOT) -> str:
    """What a build is made from: all that the compiler reads, and for which Python."""
    digest = blake2b(str(sysconfig.get_config_var("EXT_SUFFIX")).encode(), digest_size=16)
    for path in sources(root):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sources(root: Path = ROOT) -> list[Path]:
    """The files that the compiler reads, sorted."""
    return sorted(
        [*(root / "streaming" / "broker").rglob("*.py"), *(root / "topology").rglob("*.py")]
    )


def modules(root: Path = ROOT) -> list[str]:
    """The modules of `streaming.broker` to compile, sorted: all but `UNCOMPILED`."""
    broker = root / "streaming" / "broker"
    names = (
        ".".join(path.relative_to(broker).with_suffix("").parts) for path in broker.rglob("*.py")
    )
    return sorted(
        name for name in names if name not in UNCOMPILED and not name.endswith(".__init__")
    )


def default_folder() -> Path:
    """Where `dlx compile` puts the build of these sources."""
    return user_cache_folder() / "compiled" / sources_digest()


def use_if_asked() -> None:
    """Put a build before the Python modules of `streaming.broker`, if the variable asks for it."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted in {"", "0"}:
        return
    folder = default_folder() if wanted == "1" else Path(wanted)
    note = folder / SOURCES
    if not note.is_file() or note.read_text("utf-8") != sources_digest():
        warnings.warn(
            f"{VARIABLE}={wanted}: {folder} holds no build of these sources for this Python; "
            "the plain Python is used. `dlx compile` makes one.",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    sys.path.append(str(folder))  # the library that the modules share is a module at the top
    for library in {path.parent for path in (folder / "streaming" / "broker").rglob("*.so")}:
        package = import_module(".".join(library.relative_to(folder).parts))
        package.__path__.insert(0, str(library))


def in_use() -> bool:
    """Whether the broker that runs is a compiled one."""
    import streaming.broker.shard  # noqa: PLC0415 - a question about it, asked late

    return not str(streaming.broker.shard.__file__).endswith(".py")
