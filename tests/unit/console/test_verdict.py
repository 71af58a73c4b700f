"""What the first page says about facts: what is wrong, what is unknown, and never "nothing"."""

import inspect
import re
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from streaming.config.alerts import ABOUT_QUEUES
from streaming.console.lag import Lag
from streaming.console.pages import balance, now
from streaming.console.queue_marks import NEAR_LIMIT, NEAR_MAX_LENGTH, NO_CONSUMER
from streaming.console.reader import read_instant
from streaming.console.verdict import MINUTES, STALE_S, Facts, verdict
from streaming.contents.updater import ContentsUpdater
from streaming.ledger.batch_detail import GateState
from streaming.metrics.alerts import RULES
from streaming.pipeline.checkpoint.job_state import Failing
from streaming.queries.as_of.instant import resolve
from streaming.queries.dead_letters.waiting import WaitingQueue
from streaming.queries.death_rates import (
    BURST,
    BURST_LETTERS,
    OLD_S,
    deaths_by_minute,
    pattern_of,
)
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.ends import LOST, LOST_WITHOUT_EXCHANGE
from streaming.queries.queues import QueueDepth
from tests.builders import START_MS, Broker
from tests.unit.queries.recording import Recording

END = datetime(2026, 11, 22, 10, tzinfo=UTC)
END_MS = int(END.timestamp() * 1000)
EMPTY = Lag(0, [])

CLOSED = GateState(2_000, 0, "above", open=False)


def facts(**members):
    return Facts(end=END, minutes=members.pop("minutes", [0] * MINUTES), **members)


def said(**members):
    found = verdict(facts(**members))
    return found.tone, " ".join([*(one.what for one in found.concerns), *found.unknown])


def test_without_concerns_and_with_all_known_nothing_is_wrong():
    assert said(silence_s=5.0, lag=EMPTY) == ("good", "")
    assert said(silence_s=STALE_S, lag=None) == ("good", "")


@pytest.mark.parametrize(
    ("members", "tone", "words"),
    [
        ({"lag": None}, "unknown", "The last batch was 54 min ago"),
        ({"lag": EMPTY}, "unknown", "idle, or does not run"),
        ({"lag": Lag(7, [])}, "bad", "no batch for 54 min, although 7 records wait"),
        ({"lag": Lag(7, []), "gate": CLOSED}, "warn", "flow control"),
        ({"lag": EMPTY, "runs": True}, "good", ""),
        ({"lag": None, "runs": True}, "unknown", "not known"),
        ({"lag": Lag(7, []), "runs": True}, "bad", "7 records wait in Kafka: the job is stuck"),
        ({"lag": None, "runs": False}, "warn", "does not run since the last batch, 54 min ago"),
        ({"lag": Lag(1, []), "runs": False}, "bad", "54 min ago, and 1 record waits in Kafka"),
    ],
)
def test_a_job_without_batches_is_never_fine_unless_it_is_known_to_be_idle(members, tone, words):
    found = said(silence_s=54 * 60.0, **members)

    assert found[0] == tone
    assert words in found[1]


FAILING = Failing(END_MS - 1_200_000, END_MS, 15, "outbound-records", "no", "Kafka", END_MS)
ONCE = structs.replace(FAILING, attempts=1)
ENDED = structs.replace(FAILING, next_ms=None)


@pytest.mark.parametrize(
    ("members", "tone", "words"),
    [
        ({"failing": FAILING}, "bad", "committed: 15 attempts failed since 2026-11-22 09:40:00"),
        ({"failing": ONCE}, "warn", "committed: 1 attempt failed, at 2026-11-22 09:40:00"),
        ({"failing": FAILING, "runs": False}, "bad", "the job has ended: 15 attempts"),
        ({"failing": ENDED}, "bad", "the job has ended: 15 attempts to commit a batch failed"),
        ({"runs": False}, "warn", "the job does not run, and has committed no batch"),
    ],
)
def test_a_job_whose_batches_fail_is_wrong_before_and_after_its_first_batch(members, tone, words):
    for more in ({"has_batch": False}, {"silence_s": 3_600.0, "lag": Lag(7, [])}):
        found = said(**members, **more)
        if "failing" in members or not more.get("has_batch", True):
            assert found[0] == tone
            assert words in found[1]
            assert "dlx doctor`" not in found[1], "nothing is unknown"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"sees": "none"}, "You may see no vhost"),
        ({"has_batch": False}, "no batch yet. If it stays so, it does not run or its batches fail"),
        ({"missing": ["dead_letters"]}, "dead_letters cannot be read"),
        ({"known_since": END + timedelta(seconds=1)}, "The tables begin at 2026-11-22 10:00:01"),
    ],
)
def test_what_is_not_known_is_said(members, words):
    tone, text = said(**members)

    assert tone == "unknown"
    assert words in text


def test_a_history_that_is_shorter_than_an_hour_is_said_beside_a_good_verdict():
    found = verdict(facts(known_since=END - timedelta(minutes=20), sees="some"))

    assert found.tone == "good"
    assert "vhosts that you may see" in found.notes[0]
    assert "2026-11-22 09:40:00: nothing earlier is known" in found.notes[1]


def test_something_unknown_is_said_beside_what_is_wrong():
    found = verdict(facts(lost=3, missing=["dead_letters"]))

    assert (found.tone, len(found.concerns), len(found.unknown)) == ("bad", 1, 1)


def test_the_worst_comes_first():
    old = (END - timedelta(hours=5)).isoformat()
    found = verdict(facts(lost=1, gate=CLOSED, waiting=[WaitingQueue("/", "q", 1, old)]))

    assert [one.tone for one in found.concerns] == ["bad", "warn", "warn"]


@pytest.mark.parametrize(
    ("recent", "before", "tone"),
    [(BURST_LETTERS, 0, "bad"), (BURST_LETTERS - 1, 0, "good"), (100, 5, "good"), (101, 5, "bad")],
)
def test_a_burst_is_many_deaths_at_once_that_are_more_frequent_than_before(recent, before, tone):
    minutes = [0] * 25 + [before] * 30 + [0, 0, 0, 0, recent]

    assert said(minutes=minutes)[0] == tone


@pytest.mark.parametrize(
    ("known_minutes", "tone", "words"),
    [
        (3, "bad", "how many are usual is not known yet"),
        (14, "bad", "how many are usual is not known yet"),
        (15, "good", ""),
        (60, "bad", "and 5 a minute in the 30 minutes before"),
    ],
)
def test_a_burst_is_compared_with_what_is_known_of_the_half_hour_before(known_minutes, tone, words):
    before = [0] * 45 + [15] * 10 if known_minutes > 3 else [0] * 55
    minutes = [*before, 0, 0, 0, 0, 150]
    found = said(minutes=minutes, known_since=END - timedelta(minutes=known_minutes))

    assert found[0] == tone
    assert words in found[1]


def test_letters_wait_long_after_as_long_as_the_alert_says():
    def waiting(seconds):
        since = (END - timedelta(seconds=seconds)).isoformat()
        return said(waiting=[WaitingQueue("/", "dead", 1, since)])[0]

    assert waiting(OLD_S - 60) == "good"
    assert waiting(OLD_S + 60) == "warn"


def test_the_alerts_fire_for_the_same():
    rules = RULES.read_text()

    assert set(re.findall(r'outcome=~"([^"]+)"', rules)) == {"|".join(LOST)}
    without = re.findall(r'outcome="no_exchange", reason=~"([^"]+)"', rules)
    assert set(without) == {"|".join(LOST_WITHOUT_EXCHANGE)}
    assert f"oldest_timestamp_seconds > {OLD_S / 3600:.0f} * 3600" in rules
    assert f">= {BURST_LETTERS}\n" in rules
    assert f"<= {BURST} * sum" in rules
    assert f"dlx_queue_fill_ratio >= {NEAR_LIMIT}\n" in rules
    assert {NO_CONSUMER, NEAR_MAX_LENGTH, *LEFT_OUT} <= set(ABOUT_QUEUES)


LEFT_OUT = {
    alert
    for module in (now, balance)
    for alert in re.findall(r'quiet_in\("(\w+)"\)', inspect.getsource(module))
}
"""The alerts whose quiet queues pages leave out, too."""


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """Tables of a queue that drops its oldest messages, and of one whose consumer rejects."""
    broker = Broker()
    recording = Recording(tmp_path_factory.mktemp("bounded") / "tables", broker)
    recording.commit()  # nothing has happened yet
    broker.at(120_000)
    broker.queue("newest", max_length=1)
    broker.queue("work.eu")
    for number in range(3):
        broker.publish("", "newest", f"order {number}")
    broker.publish("", "work.eu", "order 3")
    broker.get("work.eu", "g", 1)
    broker.reject("g/0")
    broker.at(121_000)
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


def counted(root, **options):
    end = datetime.fromtimestamp((START_MS + 130_000) / 1000, UTC)
    rows = deaths_by_minute(Tables(root), end, MINUTES, **options)
    return {
        row["reason"]: (row["deaths"], row["loud"], row["lost"], row["dropped"]) for row in rows
    }


def test_what_a_full_queue_drops_is_not_lost_and_what_a_consumer_rejects_is(bounded):
    assert counted(bounded) == {"maxlen": (2, 2, 0, 2), "rejected": (1, 1, 1, 0)}
    assert counted(bounded, vhost="other") == {}
    for options, rejected in (
        ({"quiet": ("work.*",)}, (1, 0, 1, 0)),
        ({"not_lost": ("work.*",)}, (1, 1, 0, 1)),
    ):
        assert counted(bounded, **options) == {"maxlen": (2, 2, 0, 2), "rejected": rejected}


def test_an_instant_in_epoch_seconds_is_that_of_the_links_of_alerts():
    assert read_instant("@1764000000.5") == datetime(2025, 11, 24, 16, 0, 0, 500_000, UTC)

    for wrong in ("@", "@now", "@nan", "@1e99"):
        with pytest.raises(QueryError, match="cannot read the instant"):
            read_instant(wrong)


def test_the_first_page_leaves_quiet_queues_out(bounded, make_client):
    page = make_client(bounded).get("/?as_of=1").text
    quiet = make_client(bounded, quiet=("work.*",)).get("/?as_of=1").text

    assert "1 dead letter of the last hour is lost" in page
    assert "Nothing is wrong" in quiet
    assert "3 dropped as declared" in quiet


def test_a_queue_that_is_quiet_in_one_alert_is_left_out_of_what_agrees_with_it(
    bounded, make_client
):
    not_lost = make_client(bounded, quiet_of={"DlxDeadLettersLost": ("work.*",)})
    other = make_client(bounded, quiet_of={"DlxNoConsumer": ("work.*",)})

    assert "Nothing is wrong" in not_lost.get("/?as_of=1").text
    assert "1 dead letter of the last hour is lost" in other.get("/?as_of=1").text


def test_before_the_first_event_nothing_is_known(bounded, make_client):
    tables = Tables(bounded)
    for instant in ("2020-09-13 12:26:39", "0001-01-01"):
        with pytest.raises(QueryError, match="history begins at 2020-09-13T12:26:40Z"):
            resolve(tables, instant, read_instant)

    page = make_client(bounded).get("/?as_of=2020-01-01")
    assert page.status_code == 400
    assert "Nothing is wrong" not in page.text


@pytest.mark.parametrize("names", [("work",), ("work", "retry.*"), ("*",), ("a(b|c)\\", "\n*x")])
def test_patterns_of_names_mean_the_same_in_python_and_duckdb(names):
    tables = Tables("nowhere")
    for name in ("work", "works", "retry.5s", "retry", "a(b|c)\\", "ab", "\n\nx", "é", ""):
        in_python = re.fullmatch(pattern_of(names), name) is not None
        [(in_duckdb,)] = tables.values("SELECT regexp_full_match(?, ?)", [name, pattern_of(names)])
        assert in_python == in_duckdb


def test_a_page_of_a_dead_job_is_not_green(shop_console):
    page = shop_console.get("/").text

    assert "Nothing is wrong" not in page
    assert "whether records wait in Kafka is not known" in page
    assert re.search(r"<dt>Gate</dt><dd>unknown</dd>", page)
    assert "the job is idle, or does not run" in shop_console.get("/health").text


def test_a_user_without_a_vhost_is_told_nothing_good(make_client_of_anna, shop_root):
    anna = make_client_of_anna(shop_root)

    for path in ("/", "/balance", "/queues", "/causes", "/search", "/redrives", "/audit"):
        page = anna.get(path).text
        assert "You may see no vhost" in page, path
        good = (
            "Nothing is(?! declared that you may see)|Nothing was [^.]*(?<!that you may see)[.]|"
            "No message died|None[.]"
        )
        assert not re.search(good, page), path
    assert "<dt>Lost in the last hour</dt><dd>unknown</dd>" in anna.get("/").text


def test_a_user_of_some_vhosts_is_told_that_it_is_about_them(make_client_of_anna, two_vhosts):
    anna = make_client_of_anna(two_vhosts)

    assert "vhosts that you may see" in anna.get("/?as_of=1").text
    assert "You may see no vhost" not in anna.get("/").text


def test_each_concern_leads_to_what_it_is_about():
    old = WaitingQueue("/", "dead", 3, (END - timedelta(seconds=2 * OLD_S)).isoformat())
    burst = [0] * (MINUTES - 1) + [BURST_LETTERS]
    found = verdict(facts(minutes=burst, lost=1, waiting=[old], gate=CLOSED, unexplained="2 rows"))

    assert [(one.path, one.about) for one in found.concerns] == [
        ("/balance", {}),
        ("/search", {"since": "2026-11-22 09:00:00", "end": "lost"}),
        ("/causes", {"since": "2026-11-22 09:55:00"}),
        ("/health", {}),
        ("/queue", {"vhost": "/", "queue": "dead"}),
    ]


def test_full_queues_that_drop_dead_letters_are_bad_and_said_first():
    queues = [QueueDepth("/", name, "classic", 3, 0, 3, None) for name in ("parking", "lot")]
    dropped = {("/", "parking"): 3, ("/", "lot"): 4}

    [one, other] = verdict(
        facts(dropping=queues[:1], dropped=dropped, nearly_full=queues[1:])
    ).concerns
    [many] = verdict(facts(dropping=queues, dropped=dropped)).concerns

    assert (one.tone, one.about, other.tone) == ("bad", {"vhost": "/", "queue": "parking"}, "warn")
    assert "3 in the last hour" in one.what
    assert (many.path, many.about) == ("/queues", {"show": "dropping"})
    assert "7 in the last hour" in many.what


@pytest.mark.parametrize("mark", ["unserved", "nearly_full"])
def test_a_queue_with_a_mark_is_a_concern(mark):
    queues = [QueueDepth("/", name, "classic", 3, 0, 3, None) for name in ("orders", "mail")]

    [one] = verdict(facts(**{mark: queues[:1]})).concerns
    [many] = verdict(facts(**{mark: queues})).concerns

    assert (one.tone, one.path, one.about) == ("warn", "/queue", {"vhost": "/", "queue": "orders"})
    assert one.what.startswith("orders ")
    assert (many.path, many.about) == ("/queues", {"show": mark})
    assert many.what.startswith("2 queues ")
    assert many.what.endswith(", such as orders")
