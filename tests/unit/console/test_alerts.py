"""Alerts: what fires, as the job keeps it beside its checkpoint, and every rule."""

import re
from html import unescape

import msgspec
import pytest

from streaming.metrics.alerting.conditions import NOT_FOUND
from streaming.metrics.alerting.notices import KEPT_FILE, Kept, Notice
from streaming.metrics.alerts import alert_names

WEBHOOK = '[alerts]\nwebhook = "http://127.0.0.1:1/x"\n'
FIRING = Kept(
    [
        Notice("a", "DlxNoConsumer", {"vhost": "/", "queue": "mail <b>"}, 42.0, 1_600_000_000.0),
        Notice("b", "DlxJobStale", {}, 600.0, 1_600_000_100.0),
        Notice("c", "DlxDiskFillsUp", {}, 1.0, 1_600_000_000.0, ended_s=1_600_000_050.0),
        Notice("d", "DlxOfANewerJob", {}, 1.0, 1_600_000_000.0),
    ]
)


def words(page):
    return " ".join(unescape(re.sub("<[^>]*>", " ", page)).split())


@pytest.fixture
def job(tmp_path):
    """Writes the configuration of a job and what it keeps; returns the file."""

    def write(alerts=WEBHOOK, kept=None):
        file = tmp_path / "dlx.toml"
        text = '[kafka]\nbootstrap_servers = ["localhost:9"]\n[job]\n'
        file.write_text(f'{text}checkpoint_location = "kept"\n{alerts}')
        if kept is not None:
            (tmp_path / "kept").mkdir()
            (tmp_path / "kept" / KEPT_FILE).write_bytes(kept)
        return file

    return write


def page_of(make_client, root, address="/alerts", **settings):
    answer = make_client(root, **settings).get(address)
    assert answer.status_code == 200
    return answer.text


def test_what_fires_is_listed_the_worst_first_with_a_link_to_it(make_client, shop_root, job):
    file = job(kept=msgspec.json.encode(FIRING))
    page = page_of(make_client, shop_root, config=file)
    firing = page.partition('id="firing"')[2].partition("</table>")[0]

    assert re.findall(r">(Dlx\w+)<", firing) == ["DlxJobStale", "DlxNoConsumer"]
    assert "Queue mail <b> has no consumer, and 42 messages wait" in words(firing)
    assert "mail <b>" not in page
    assert 'href="/queue?vhost=%2F&amp;queue=mail+%3Cb%3E&amp;as_of=%401600000000"' in firing
    assert "2020-09-13 12:28:20" in firing


def test_what_an_alert_says_is_in_the_language_of_the_page(make_client, shop_root, job):
    client = make_client(shop_root, config=job(kept=msgspec.json.encode(FIRING)))
    page = words(client.get("/alerts", headers={"accept-language": "de"}).text)

    assert "Die Queue mail <b> hat keinen Consumer, und 42 Nachrichten warten" in page
    assert "Ihre Consumer starten" in page
    assert "In der Queue … sterben Nachrichten" in page


@pytest.mark.parametrize(
    ("alerts", "kept", "said"),
    [
        (WEBHOOK, None, "No alert fires."),
        (WEBHOOK, b"{}", "No alert fires."),
        (WEBHOOK, b"{", "cannot be read"),
        ("", None, "if alerts.webhook is set"),
        ("[alerts]\nwebhok = 1\n", None, "cannot be read"),
    ],
)
def test_what_is_not_known_is_said(make_client, shop_root, job, alerts, kept, said):
    page = words(page_of(make_client, shop_root, config=job(alerts, kept)))

    assert said in page
    assert ("No alert fires." in page) == (said == "No alert fires.")


def test_without_a_configuration_or_of_the_past_nothing_is_known(make_client, shop_root, job):
    assert "start the console with --config" in words(page_of(make_client, shop_root))
    file = job(kept=msgspec.json.encode(FIRING))
    past = page_of(make_client, shop_root, "/alerts?as_of=1", config=file)
    assert "What fired then is not kept." in words(past)


def test_every_rule_is_listed_with_the_queues_that_it_leaves_out(make_client, shop_root):
    left_out = {"DlxNoConsumer": ("nightly.*",)}
    page = page_of(make_client, shop_root, quiet=("retry.*",), quiet_of=left_out)
    rules = words(page.partition("All rules")[2])

    assert all(name in rules for name in alert_names())
    assert "retry.*, nightly.*" in rules
    assert "{{" not in rules
    assert len(re.findall(r"retry\.\*", rules)) == 8, "the alerts about queues"
    assert len(re.findall("Prometheus, the job", rules)) == len(alert_names()) - len(NOT_FOUND)


def test_a_user_sees_no_alert_of_a_hidden_vhost_or_of_the_job(
    make_client_of_anna, make_client, two_vhosts, job, monkeypatch
):
    kept = Kept(
        [
            Notice("a", "DlxNoConsumer", {"vhost": "vault-v", "queue": "vault-q"}, 1.0, 0.0),
            Notice("b", "DlxNoConsumer", {"vhost": "/", "queue": "open"}, 1.0, 0.0),
            Notice("c", "DlxJobStale", {}, 1.0, 0.0),
        ]
    )
    file = job(kept=msgspec.json.encode(kept))
    settings = {"config": file, "quiet": ("vault-q",)}
    anna = make_client_of_anna(two_vhosts, **settings).get("/alerts").text
    root = make_client(two_vhosts, **settings).get("/alerts").text

    assert "vault" not in anna
    assert "DlxJobStale" not in anna.partition("All rules")[0]
    assert "Queue open has no consumer" in anna
    assert "vault-q has no consumer" in root


def test_a_rule_says_nothing_of_what_only_an_alert_that_fires_knows(make_client, shop_root):
    page = make_client(shop_root).get("/alerts").text

    assert '<td class="prose">Messages die in queue …</td>' in page
    assert "The disk of the checkpoint has … left, or is full within four hours" in page
