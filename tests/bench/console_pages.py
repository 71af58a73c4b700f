"""Measures the pages of the console on tables with a million dead letters and ten thousand queues.

    python -m tests.bench.console_pages [--letters 1000000] [--queues 10000] [--folder DIR]

Snapshots are as frequent as a job's. Each page is asked live and as of a batch, in
this process, through the whole application: for the first time in a console that was started before
(`first_s`), again (`best_s`), and in a console that knows nothing yet (`cold_s`). All are times of
the whole content. It fails if the first one is longer than it may be. Processes that answer SQL
find Python's bytecode, as after the first start of an installation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from streaming.console.app import PAGES, make_app
from streaming.console.logins import Guard, Logins
from streaming.console.page import Console
from streaming.console.reader import Reader
from streaming.console.server import warm_up
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.batch_detail import BatchRow
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.data_file import DRIVER, DataFileName, write_data_file
from streaming.ledger.write.ledger import Ledger
from streaming.storage.location import Location
from tests.bench.dead_letter_rows import BATCH, EVENTS_A_LETTER, QUERY, QUEUES, START_US
from tests.bench.dead_letter_rows import write_letters as write_rows

HOST = "127.0.0.1:9420"
ROWS_A_SNAPSHOT = 1_000_000
"""The default of tables.snapshot_interval_rows."""

FIRST_PAGE_S = 0.3
ANY_PAGE_S = 1.0
OPENED_S = 0.5
"""The longest that the first page, and any page, may take, and SQL a second after its page."""

SQL = "/sql"

PARAMETERS = {
    "/queue": "queue=work-3&stretch=all",
    "/changes": "queue=work-3&from=18&to=19",
    "/message": "id=1/0/5000",
    "/compare": "id=1/0/5000&with=1/0/5001",
    "/redrive/plan": "queue=work-3&since=2020-09-13T12:43:00Z",
    SQL: "sql=SELECT+queue,+count(*)+FROM+dead_letters+GROUP+BY+ALL",
}
"""What a page needs."""

NO_PAGES = {"/redrive"}
"""It needs a plan."""

MORE = ("/queue?queue=dead&stretch=15m", "/search?queue=work-3&page=50", "/causes?by=queue,reason")
"""More to ask."""


def write_tables(root: Path, letters: int, queues: int) -> None:
    """Write the tables of letters, then a batch that declares queues."""
    write_rows(root, letters)
    batch_id = -(-letters // BATCH)
    names = [*QUEUES, "dead", *(f"idle-{number:05}" for number in range(queues))]
    details = [
        {"what": "queue_declared", "name": name, "type": "classic", "declaration": _queue(name)}
        for name in names
    ]
    rows = len(details)
    first = letters * EVENTS_A_LETTER
    table = build_table(
        TABLES["events"].schema,
        {
            "query_id": Constant(QUERY),
            "batch_id": Constant(batch_id),
            "vhost": Constant("/"),
            "lane": Constant(0),
            "seq": list(range(first, first + rows)),
            "at": Constant(START_US + letters * 1000),
            "kind": Constant("topology"),
            "detail": [json.dumps(detail) for detail in details],
        },
        rows,
    )
    place = Location(str(root))
    step = ROWS_A_SNAPSHOT // (BATCH * EVENTS_A_LETTER)
    for last in range(step - 1, batch_id - 1, step):
        SnapshotWriter(place, threads=None).write(last)
    file_name = DataFileName(QUERY, batch_id, "events", DRIVER)
    file = write_data_file((place / "events").storage(), TABLES["events"], file_name, table)
    assert file is not None
    ledger = Ledger(place)
    now_ms = START_US // 1000 + letters
    ledger.commit([file], BatchRow(QUERY, batch_id, now_ms, totals([file])))
    ledger.close()
    ContentsUpdater(place).update()


def _queue(name: str) -> dict[str, Any]:
    arguments = {} if name == "dead" else {"x-dead-letter-exchange": "dlx"}
    return {"name": name, "durable": True, "auto_delete": False, "arguments": arguments}


def measure(root: Path, letters: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield the times of each page, in seconds, and processor time of the first."""
    last = -(-letters // BATCH)
    addresses = [
        f"{page.path}?{PARAMETERS.get(page.path, '')}"
        for page in PAGES
        if not page.is_action and not page.is_file and page.path not in NO_PAGES
    ]
    started = time.perf_counter()
    console = Console(Reader(str(root)), PAGES)
    warm_up(console)
    yield {
        "page": "(start)",
        "warm_up_s": round(time.perf_counter() - started, 3),
        "is_slow": False,
    }
    for address in (*addresses, *MORE):
        for as_of in ("", str(last)):
            whole = f"{address}&as_of={as_of}"
            times, answer = _ask(console, whole, runs)
            knows_nothing = Console(Reader(str(root)), PAGES)
            cold, _ = _ask(knows_nothing, whole, 1)
            knows_nothing.reader.stop()  # else it still draws its balance while the next is asked
            if answer.status_code != 200:
                print(answer.status_code, answer.text[-600:])
            (first_s, worked_s), *_ = times
            yield {
                "page": address,
                "as_of": as_of or "live",
                "first_s": round(first_s, 3),
                "first_cpu_s": round(worked_s, 3),
                "best_s": round(min(times)[0], 3),
                "cold_s": round(cold[0][0], 3),
                "cold_cpu_s": round(cold[0][1], 3),
                "kilobytes": len(answer.content) // 1000,
                "is_slow": first_s > (FIRST_PAGE_S if address == "/?" else ANY_PAGE_S),
            }
    [(opened_s, worked_s)], _ = _ask(console, f"{SQL}?{PARAMETERS[SQL]}", 1, opened=SQL)
    yield {
        "page": "(the first SQL, a second after its page was opened)",
        "first_s": round(opened_s, 3),
        "first_cpu_s": round(worked_s, 3),
        "is_slow": opened_s > OPENED_S,
    }


def _ask(
    console: Console, address: str, runs: int, opened: str | None = None
) -> tuple[list[tuple[float, float]], Any]:
    """Ask a page, perhaps a second after another one was opened.

    Returns:
        The elapsed and the processor time of each run, and the last answer.
    """
    tokens: list[str] = []
    guard = Guard(frozenset({HOST}), logins=Logins(tokens.append))
    times = []
    with TestClient(make_app(console, guard), base_url=f"http://{HOST}") as client:
        answer = client.get(f"/static/console.css?token={tokens[-1]}")
        if opened is not None:
            client.get(opened)
            time.sleep(1)
        for _ in range(runs):
            started, worked = time.perf_counter(), time.process_time()
            answer = client.get(address)
            times.append((time.perf_counter() - started, time.process_time() - worked))
    return times, answer


def main() -> None:
    """Read the options and measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--letters", type=int, default=1_000_000)
    options.add_argument("--queues", type=int, default=10_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--folder", type=Path)
    chosen = options.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-P", "-c", "import streaming.console.child"], check=True)
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.folder or Path(temporary) / "tables"
        if not root.exists():
            write_tables(root, chosen.letters, chosen.queues)
        slow = []
        for figures in measure(root, chosen.letters, chosen.runs):
            print(json.dumps(figures), flush=True)
            slow += [figures["page"]] if figures["is_slow"] else []
    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")


if __name__ == "__main__":
    main()
