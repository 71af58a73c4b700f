"""Measures the pages of the console on tables with a million dead letters and ten thousand queues.

    python -m tests.bench.console_pages [--letters 1000000] [--queues 10000] [--folder DIR]

Each page is asked live and as of the last batch, in this process, through the whole application.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from streaming.console.access import Guard, Logins
from streaming.console.app import PAGES, make_app
from streaming.console.page import Console
from streaming.console.reader import Reader
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.schema.schemas import TABLES
from streaming.ledger.storage import Place
from streaming.ledger.write.arrow_columns import Constant, build_table
from streaming.ledger.write.batch_row import BatchRow, totals
from streaming.ledger.write.data_file import DataFileName, write_data_file
from streaming.ledger.write.ledger import Ledger
from tests.bench.dead_letter_rows import BATCH, EVENTS_A_LETTER, QUERY, QUEUES, START_US
from tests.bench.dead_letter_rows import write_letters as write_rows

HOST = "127.0.0.1:9420"
PARAMETERS = {
    "/queue": "queue=work-3&stretch=all",
    "/changes": "queue=work-3&from=18&to=19",
    "/message": "id=1/0/5000",
}
"""What a page needs."""


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
    place = Place(str(root))
    file_name = DataFileName(QUERY, batch_id, "events", 1, 0)
    file = write_data_file(place.below("events").storage(), TABLES["events"], file_name, table)
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
    """Yield the best and the first time of each page, in seconds."""
    tokens: list[str] = []
    guard = Guard(frozenset({HOST}), logins=Logins(tokens.append))
    app = make_app(Console(Reader(str(root)), PAGES), guard)
    last = -(-letters // BATCH) - 1
    with TestClient(app, base_url=f"http://{HOST}") as client:
        client.get(f"/static/console.css?token={tokens[-1]}")
        for page in PAGES:
            if page.is_action:
                continue
            for as_of in ("", str(last)):
                times = []
                size = 0
                for _ in range(runs):
                    started = time.perf_counter()
                    answer = client.get(
                        f"{page.path}?{PARAMETERS.get(page.path, '')}&as_of={as_of}"
                    )
                    times.append(time.perf_counter() - started)
                    size = len(answer.content)
                    if answer.status_code != 200:
                        print(answer.status_code, answer.text[-600:])
                yield {
                    "page": page.path,
                    "as_of": as_of or "live",
                    "first_s": round(times[0], 3),
                    "best_s": round(min(times), 3),
                    "kilobytes": size // 1000,
                }


def main() -> None:
    """Read the options and measure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--letters", type=int, default=1_000_000)
    options.add_argument("--queues", type=int, default=10_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--folder", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = chosen.folder or Path(temporary) / "tables"
        if not root.exists():
            write_tables(root, chosen.letters, chosen.queues)
        for figures in measure(root, chosen.letters, chosen.runs):
            print(json.dumps(figures))


if __name__ == "__main__":
    main()
