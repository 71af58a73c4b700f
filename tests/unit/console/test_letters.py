"""Search, causes, a message and the audit: what they show, to whom, and as which file."""

import json
import re

import pytest

from streaming.broker import commands
from streaming.console.logins import Credentials, Guard, hash_password
from streaming.console.pages import redrives
from streaming.queries.dead_letters import header_names
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import Tables
from streaming.scenario.document import parse_scenario
from tests.builders import Broker
from tests.unit.console.conftest import HOST
from tests.unit.queries.recording import Recording


@pytest.fixture(scope="module")
def ask_as(make_client, shop_root, tmp_path_factory):
    """Asks the console as a user: anna has no permissions, eve administers, op operates."""
    file = tmp_path_factory.mktemp("users") / "users.toml"
    password = hash_password("secret")
    file.write_text(
        f'[users.anna]\npassword = "{password}"\nrole = "viewer"\n'
        f'[users.eve]\npassword = "{password}"\nrole = "viewer"\nadministrator = true\n'
        f'[users.op]\npassword = "{password}"\nrole = "operator"\nadministrator = true\n'
    )
    client = make_client(shop_root, Guard(frozenset({HOST}), credentials=Credentials(file)))

    def ask(user, address, method="GET", **more):
        return client.request(method, address, auth=(user, "secret"), **more)

    return ask


def test_a_search_counts_before_it_lists_and_its_facets_narrow_it(shop_console):
    everything = shop_console.get("/search").text
    mail = shop_console.get("/search?queue=mail").text

    assert "<strong>2</strong> dead letters" in everything
    assert "queue=mail" in everything
    assert "<strong>1</strong> dead letter</span>" in mail
    assert "order 0" not in mail
    assert "dlx dead-letters list --queue mail" in mail


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_a_search_is_exported_whole(shop_console, form):
    answer = shop_console.get(f"/search/export?format={form}&queue=mail")

    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.content
    if form == "jsonl":
        [row] = [json.loads(line) for line in answer.text.splitlines()]
        assert row["queue"] == "mail"


def test_views_are_kept_and_forgotten(shop_console, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    origin = {"origin": f"http://{HOST}"}

    shop_console.post("/search/save?queue=mail", data={"name": "<late>"}, headers=origin)
    page = shop_console.get("/search").text
    shop_console.post("/search/forget", data={"name": "<late>"}, headers=origin)

    assert '<a href="/search?queue=mail">&lt;late&gt;</a>' in page
    assert "&lt;late&gt;" not in shop_console.get("/search").text


def test_causes_count_the_deaths_of_each_group(shop_console):
    page = shop_console.get("/causes?by=queue,reason&new_since=1970-01-01").text

    assert "billing" in page
    assert "rejected" in page
    assert page.count('<svg class="spark"') == 2


def test_a_message_has_a_life_copies_headers_and_its_body_in_three_forms(shop_console):
    page = shop_console.get("/message?id=first").text
    as_hex = shop_console.get("/message?id=first&body=hex").text

    assert "rejected" in page
    assert "tenant" in page
    assert "clerk" in page
    assert "6f 72 64 65 72 20 30" in as_hex
    assert shop_console.get("/message/body?id=first").content == b"order 0"


def test_a_message_is_sent_as_a_scenario_that_can_be_read(shop_console):
    answer = shop_console.get("/message/scenario?id=first")

    assert answer.headers["content-type"] == "application/json"
    assert parse_scenario(answer.content, "a message").steps


def test_a_body_of_any_bytes_is_shown_as_text(shop_console):
    assert "\x07" not in shop_console.get("/message?id=1/0/2&body=json").text


def test_the_audit_names_who_changed_the_topology(shop_console):
    page = shop_console.get("/audit?action=definitions").text

    assert "queue declared" in page
    assert "billing" in page


@pytest.mark.parametrize(
    "address", ["/message?id=first", "/message/body?id=first", "/message/scenario?id=first"]
)
def test_a_message_of_a_queue_that_the_user_may_not_read_is_not_shown(ask_as, address):
    assert ask_as("anna", address).status_code in {400, 403}
    assert "order 0" not in ask_as("anna", address).text
    assert "order 0" not in ask_as("anna", "/search").text
    assert "order 0" not in ask_as("anna", "/search/export?format=csv").text


@pytest.mark.parametrize("address", ["/sql?sql=FROM+messages", "/search?where=true"])
def test_sql_needs_an_administrator(ask_as, address):
    assert ask_as("anna", address).status_code == 403
    assert ask_as("eve", address).status_code == 200


def test_a_plan_is_sealed_shown_and_approved_only_with_a_reason(ask_as, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    origin = {"origin": f"http://{HOST}"}

    preview = ask_as("op", "/redrive/plan?queue=mail").text
    shown = ask_as("op", "/redrive/seal?queue=mail", "POST", headers=origin)
    redrive_id = shown.url.params["id"]
    bare = ask_as("op", f"/redrive/approve?id={redrive_id}", "POST", headers=origin)
    alone = ask_as(
        "op",
        f"/redrive/approve?id={redrive_id}",
        "POST",
        headers=origin,
        data={"reason": "it is mended"},
    )

    assert "<strong>1</strong> letter to redrive" in preview
    assert redrive_id in shown.text
    assert "nothing has moved" in shown.text
    assert bare.status_code == 400
    assert alone.status_code == 409
    assert ask_as("anna", f"/redrive?id={redrive_id}").status_code == 404
    assert ask_as("op", "/redrive?id=../../etc/passwd").status_code == 400


def test_who_may_read_the_queue_of_a_death_alone_sees_no_content_of_its_letter(
    make_client_of_anna, tmp_path
):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    broker.publish("", "work", "a secret", headers={"x-exception": "a secret"})
    broker.get("work", "g")
    broker.reject("g/0")
    rights = {"configure": "", "write": "", "read": "^work$"}
    broker.do(commands.SetPermissions(user="anna", **rights))
    recording.commit()
    recording.close()
    ask = make_client_of_anna(recording.root).get

    exported = ask("/search/export?format=jsonl").text
    pages = [ask(f"/{page}").text for page in ("search", "causes?by=cause", "message?id=0/0/0")]

    assert json.loads(exported)["message_id"] == "0/0/0"
    assert "You may not read dead" in pages[-1]
    assert not any("a secret" in page for page in (*pages, exported))
    assert ask("/message/body?id=0/0/0").status_code == 404
    assert ask("/message/scenario?id=0/0/0").status_code == 403


def test_a_plan_of_more_letters_than_one_may_have_is_refused_before_it_is_made(
    shop_console, monkeypatch
):
    monkeypatch.setattr(redrives, "MAX_LETTERS", 0)
    monkeypatch.setattr(redrives, "plan_redrive", None)

    answer = shop_console.get("/redrive/plan")

    assert answer.status_code == 413
    assert "narrow" in answer.text


def test_a_search_lists_the_oldest_deaths_first_if_asked(shop_console):
    latest = shop_console.get("/search").text
    oldest = shop_console.get("/search?order=oldest").text

    times = [re.findall(r'<time datetime="([^"]+)"', page) for page in (latest, oldest)]
    assert times[0] == sorted(times[1], reverse=True) != times[1]
    assert times[1] == sorted(times[1])
    assert "--sort at --limit" in oldest


def test_causes_offer_the_headers_that_occur(shop_console):
    offered = shop_console.get("/causes").text
    page = shop_console.get("/causes?by=header:tenant").text

    assert '<option value="header:tenant">' in offered
    assert '<option value="header:tenant" selected>' in page
    assert 'href="/search?header=tenant%3Dacme"' in page
    assert "--by header:tenant" in page
    unknown = shop_console.get("/causes?by_header=nothing").text
    assert '<option value="header:nothing" selected>' in unknown


def test_headers_of_the_latest_letters_are_offered_within_the_search(shop_root, monkeypatch):
    with Tables(shop_root) as tables:
        everything = header_names.header_names(tables, DeadLetterFilter())
        mail = header_names.header_names(
            tables, DeadLetterFilter(queue="mail", where="reason = 'expired'")
        )
        monkeypatch.setattr(header_names, "LOOKED_AT", 1)
        latest = header_names.header_names(tables, DeadLetterFilter())

    assert (everything, mail, latest) == (["n", "tenant"], [], [])


def test_a_search_without_hits_offers_no_part_of_nothing(shop_console):
    page = shop_console.get("/search?queue=nowhere").text

    assert "No dead letter matches." in page
    assert "any: Queue" not in page


def test_a_plan_of_nothing_has_no_table_and_says_why_once(shop_console):
    none = shop_console.get("/redrive/plan?queue=nowhere").text
    gone = shop_console.get("/redrive/plan?queue=billing").text

    assert none.count("No dead letter matches.") == 1
    assert "1 death matches, but there is nothing to redrive." in gone
    assert 'aria-label="Forecast"' not in none + gone
