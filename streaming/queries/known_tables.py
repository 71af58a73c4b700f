"""Delta tables that stay loaded between questions: the next one reads only later commits."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from streaming.storage.location import local_path

_Commit = tuple[int, int, int]
"""What tells the file of a commit from that of another table: inode, time of change, size."""


class LoadedTable:
    """A table at one version.

    Attributes:
        table: nobody may update it while this is in use.
    """

    def __init__(self, table: DeltaTable) -> None:
        self.table = table
        self._actions: Any = None
        self._columns: dict[str, list[Any] | None] = {}

    def of_files(self, column: str) -> list[Any] | None:
        """What the log says of each data file, in one order: `path`, `num_records`, `min.at`, ...

        None: it says no such thing.
        """
        if self._actions is None:
            self._actions = self.table.get_add_actions(flatten=True)
        if column not in self._columns:
            known = column in self._actions.column_names
            self._columns[column] = self._actions.column(column).to_pylist() if known else None
        return self._columns[column]


class _Kept(NamedTuple):
    loaded: LoadedTable
    version: int
    commit: _Commit


class KnownTables:
    """The tables that one question after another has loaded; used by one at a time.

    A table is kept if its last commit is a local file. If that file is not the same any more, the
    table is another one, and is loaded anew.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def load(self, url: str, options: Mapping[str, str]) -> LoadedTable:
        """Return a table at its last version.

        Raises:
            TableNotFoundError, DeltaError, OSError: it cannot be read.
        """
        kept, loaded = self._kept.pop(url, None), None
        if kept is not None and kept.commit == _commit(url, kept.version):
            loaded = _updated(kept)
        if loaded is None:
            loaded = LoadedTable(DeltaTable(url, storage_options=dict(options)))
        version = loaded.table.version()
        commit = _commit(url, version)
        if commit is not None:
            self._kept[url] = _Kept(loaded, version, commit)
        return loaded


def _updated(kept: _Kept) -> LoadedTable | None:
    """The table with later commits; None: they cannot be read."""
    table = kept.loaded.table
    try:
        table.update_incremental()
    except (DeltaError, OSError):
        return None
    return kept.loaded if table.version() == kept.version else LoadedTable(table)


def _commit(url: str, version: int) -> _Commit | None:
    """The file of a commit; None: there is none here."""
    root = local_path(url)
    if root is None:
        return None
    try:
        found = (root / "_delta_log" / f"{version:020}.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
