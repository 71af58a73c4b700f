"""Write dead letters, or any answer, to a file or URL: CSV, JSON lines, Parquet or Arrow.

A file appears under its name only when it is complete.
"""

import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from streaming.csv_cells import csv_cell
from streaming.queries.damage import one_line
from streaming.queries.duckdb_tables import QueryError, Row
from streaming.queries.result import QueryResult
from streaming.storage.location import Location, local_path

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "jsonl", "parquet", "arrow"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)

STDOUT: Final = "-"

_ENDINGS: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_PROGRESS_ROWS: Final = 1_000
"""How many rows of text are written between two reports of progress."""

Progress = Callable[[int], None]
"""Is told how many rows are written so far."""


def format_of(target: str) -> Format | None:
    """The format that the ending of a file's name means; None if it is unknown."""
    return _ENDINGS.get(Path(urlsplit(target).path or target).suffix.lower())


def export(
    result: QueryResult,
    target: str,
    form: Format,
    *,
    options: Mapping[str, str] | None = None,
    replace: bool = False,
    stdout: IO[bytes] | None = None,
    progress: Progress = lambda _rows: None,
) -> int:
    """Write an answer; return how many rows it has.

    Args:
        target: a path, a URL such as `s3://bucket/letters.parquet`, or `-` for `stdout`.
        options: storage options of a URL.
        replace: whether an existing file may be replaced.

    Raises:
        QueryError: the file exists, or the place cannot be written.
    """
    with _opened(target, options or {}, stdout, replace=replace) as file:
        write = _WRITERS[form]
        return write(result, file, progress)


@contextmanager
def _opened(
    target: str, options: Mapping[str, str], stdout: IO[bytes] | None, *, replace: bool
) -> Iterator[Any]:
    if target == STDOUT:
        assert stdout is not None, "the caller must give the stream"
        yield stdout
        return
    path = local_path(target)
    exists = "exists; give another name, or --force to replace it"
    if path is None:
        folder, _, name = target.rpartition("/")
        try:
            storage = Location(folder, options).storage()
            if not replace and storage.size(name) is not None:
                raise QueryError(f"{target}: {exists}")
            with tempfile.TemporaryFile() as local:  # a file appears when it is complete
                yield local
                local.seek(0)
                storage.upload(name, local)
        except OSError as error:
            raise QueryError(f"{target}: cannot be written: {one_line(error)}") from None
        return
    try:
        is_folder = path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise QueryError(f"{path}: cannot be written: {error.strerror or error}") from None
    if is_folder:
        raise QueryError(f"{path}: is a folder; name a file in it")
    hidden = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not (replace and path.is_file()):  # a device must not become a file
            what = exists if path.is_file() else f"is not a regular file; {STDOUT} means stdout"
            raise QueryError(f"{path}: {what}")
        with hidden.open("xb") as file:
            yield file
        hidden.replace(path)
    except OSError as error:
        raise QueryError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # it may be what could not be made
            hidden.unlink(missing_ok=True)


def _write_csv(result: QueryResult, file: Any, progress: Progress) -> int:
    names = result.columns
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")

    def line(row: Row) -> bytes:
        writer.writerow([csv_cell(row.get(name)) for name in names])
        return _taken(text)

    writer.writerow(map(csv_cell, names))
    file.write(_taken(text))
    return _write_lines(result, file, progress, line)


def _taken(text: io.StringIO) -> bytes:
    taken = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return taken


def _write_jsonl(result: QueryResult, file: Any, progress: Progress) -> int:
    return _write_lines(result, file, progress, lambda row: msgspec.json.encode(row) + b"\n")


def _write_lines(
    result: QueryResult, file: Any, progress: Progress, line: Callable[[Row], bytes]
) -> int:
    count = 0
    for count, row in enumerate(result, 1):
        file.write(line(row))
        if count == 1:
            file.flush()  # a reader sees at once that there is something
        if count % _PROGRESS_ROWS == 0:
            progress(count)
    progress(count)
    return count


def _write_parquet(result: QueryResult, file: Any, progress: Progress) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow, and few ask for it

    reader = result.batches()
    with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
        return _write_batches(reader, writer.write_batch, progress)


def _write_arrow(result: QueryResult, file: Any, progress: Progress) -> int:
    import pyarrow as pa  # noqa: PLC0415 - slow, and few ask for it

    reader = result.batches()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(file, reader.schema, options=options) as writer:
        return _write_batches(reader, writer.write_batch, progress)


def _write_batches(
    reader: "pa.RecordBatchReader", write: "Callable[[pa.RecordBatch], None]", progress: Progress
) -> int:
    count = 0
    for batch in reader:
        write(batch)
        count += batch.num_rows
        progress(count)
    return count


_WRITERS: Final[dict[Format, Callable[[QueryResult, Any, Progress], int]]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
