"""The command below a page runs as it is copied, and shows the same as the page."""

import html
import json
import re
import shlex
import sys

import pytest

from streaming.cli.main import main
from streaming.console.app import PAGES
from streaming.contents.updater import ContentsUpdater
from tests.unit.queries.shop import a_shop

ADDRESSES = {
    "/": "",
    "/queues": "sort=messages_ready",
    "/queue": "queue=billing&state=unacked",
    "/changes": "queue=billing&from=0&to=1",
    "/exchanges": "",
    "/connections": "",
    "/channels": "",
    "/consumers": "",
    "/topology": "",
    "/topology/changes": "compared_with=0",
    "/balance": "",
    "/definitions": "",
    "/search": "queue=mail&since=1970-01-01&until=2099-01-01T00:00:00%2B02:00",
    "/causes": "by=queue,reason&new_since=10:05",
    "/find": "q=order",
    "/message": "id=first",
    "/compare": "id=first&with=0/0/2",
    "/redrives": "",
    "/redrive/plan": "queue=mail",
    "/sql": "sql=SELECT+queue,+count(*)+AS+letters+FROM+dead_letters+GROUP+BY+ALL",
    "/audit": "action=definitions",
    "/health": "",
    "/quarantine": "",
}
"""What each page is asked; each has a command."""

WITHOUT_COMMAND = {"/redrive", "/goto", "/alerts"}
"""The commands of `/redrive` are those of `dlx redrives`, and it needs a plan; `/goto` leads on. No
command lists alerts."""

MORE = (
    "/search?id=0/0/0",
    "/search?id=0/0/0,0/0/2&where=true",
    "/search?header=tenant%3Dacme",
    "/redrive/plan?id=0/0/2&gone=yes",
    "/sql?sql=SELECT+kind,+detail,+state+FROM+events+LEFT+JOIN+queue_contents+USING+(copy_id)",
    "/queue?queue=-dash-&vhost=/",
    "/changes?queue=-dash-&from=2020-09-14&to=2026-01-01",
    "/audit?user=anna&vhost=/",
)
FIELDS = {
    "/queues": ("name", "messages_ready"),
    "/queue": ("message_id", "body"),
    "/changes": ("message_id", "why"),
    "/exchanges": ("name", "type"),
    "/connections": ("user",),
    "/channels": ("name",),
    "/consumers": ("queue_name", "consumer_tag"),
    "/topology": ("destination_name",),
    "/search": ("message_id", "reason"),
    "/causes": ("queue", "deaths"),
    "/find": ("message_id", "reason"),
    "/sql": (),
    "/audit": (),
}
"""What of the command's rows is on the page."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The tables of the shop with a queue that is named like an option."""
    recording = a_shop(tmp_path_factory.mktemp("shop") / "tables")
    recording.brokers[0].queue("-dash-")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


@pytest.fixture(scope="module")
def client(make_client, shop):
    """A console that was started with --tables."""
    return make_client(shop, places={"--tables": shop})


@pytest.fixture
def copied(monkeypatch, capsys, tmp_path):
    """Runs a copied command in a zone far from UTC, and returns its rows."""
    monkeypatch.setenv("DLX_TZ", "Pacific/Kiritimati")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(command):
        words = shlex.split(command)
        place = words.index("--") if "--" in words else len(words)
        monkeypatch.setattr(sys, "argv", [*words[:place], "--json", *words[place:]])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 0, (command, said.err)
        return [json.loads(line) for line in said.out.splitlines() if line.startswith("{")]

    return run


def command_on(page):
    """The command of a page."""
    [found] = re.findall(r'<code id="command">(.*?)</code>', page, re.DOTALL)
    return html.unescape(found)


def test_every_page_is_asked():
    pages = {one.path for one in PAGES if not one.is_action and not one.is_file}

    assert pages == {*ADDRESSES, *WITHOUT_COMMAND}


@pytest.mark.parametrize("as_of", ["", "0", "10:05"])
@pytest.mark.parametrize("address", [*(f"{one}?{ADDRESSES[one]}" for one in ADDRESSES), *MORE])
def test_the_copied_command_runs_and_shows_the_same(client, copied, address, as_of):
    answer = client.get(f"{address}&as_of={as_of}")
    path = address.partition("?")[0]
    if answer.status_code == 404:
        assert "-dash-" in address
        return
    assert answer.status_code == 200, answer.text

    rows = copied(command_on(answer.text))
    if path == "/find":
        rows = [one for row in rows for one in row["found"]["messages"]]
        assert rows

    page = html.unescape(answer.text)
    for row in rows:
        for name in FIELDS.get(path, ()):
            shown = row[name] if isinstance(row[name], str) else json.dumps(row[name])
            assert not shown or shown.split("\x07")[0] in page, (name, row)


def test_the_instant_of_a_page_is_one_that_every_zone_reads_alike(client):
    page = client.get("/queues?as_of=2026-11-22+10:05").text

    assert "--as-of 2026-11-22T10:05:00Z" in command_on(page)


def test_an_instant_before_the_first_year_is_refused(client):
    assert client.get("/queues?as_of=0001-01-01T00:00%2B23:00").status_code == 400


def test_sql_as_of_an_instant_sees_whole_events_beside_the_contents(client):
    sql = "SELECT detail, state FROM events, queue_contents WHERE kind = 'topology' LIMIT 1"

    answer = client.get("/sql", params={"sql": sql, "as_of": "0"})

    assert answer.status_code == 200
    assert "queue_declared" in answer.text or "exchange_declared" in answer.text
