"""`--since` and `--until`: what they accept, in which zone; and how times are printed."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
import typer

from streaming.cli.listing.times import (
    parse_time,
    relative,
    said,
    short_times,
    time_range,
    zone_name,
)
from topology.errors import DlxError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_utc(monkeypatch):
    monkeypatch.setenv("DLX_TZ", "UTC")


def utc(year, month, day, *clock):
    return datetime.combine(date(year, month, day), time(*clock), UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30s", NOW - timedelta(seconds=30)),
        ("15m", NOW - timedelta(minutes=15)),
        ("2h", NOW - timedelta(hours=2)),
        ("2h ago", NOW - timedelta(hours=2)),
        ("1h30m", NOW - timedelta(minutes=90)),
        ("7d", NOW - timedelta(days=7)),
        ("1w", NOW - timedelta(days=7)),
        ("now", NOW),
        ("today", utc(2026, 3, 1)),
        ("Yesterday", utc(2026, 2, 28)),
        ("yesterday 07:07", utc(2026, 2, 28, 7, 7)),
        ("07:07", utc(2026, 3, 1, 7, 7)),
        ("7:07", utc(2026, 3, 1, 7, 7)),
        ("07:07:30", utc(2026, 3, 1, 7, 7, 30)),
        ("12:01", utc(2026, 2, 28, 12, 1)),
        ("2026-02-28", utc(2026, 2, 28)),
        ("2026-02-28 07:07", utc(2026, 2, 28, 7, 7)),
        ("2026-02-28T12:00:00+01:00", utc(2026, 2, 28, 11)),
        ("2026-02-28t12:00:00z", utc(2026, 2, 28, 12)),
    ],
)
def test_a_time_is_read(text, instant):
    assert parse_time(text, NOW) == instant


@pytest.mark.parametrize(
    "text",
    [
        *("", "h", "2 h", "-1h", "2x", "999999999d", "2026-13-01", "2026-02-30", "20260228"),
        *("07", "25:00", "07:60", "yesterday noon", "tomorrow", "28.02.2026", "1772366400"),
    ],
)
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(typer.BadParameter, match="yesterday, 07:07"):
        parse_time(text, NOW)


def test_a_time_without_a_zone_is_in_the_users(monkeypatch):
    monkeypatch.setenv("DLX_TZ", "America/New_York")

    assert parse_time("2026-01-15 07:07", NOW) == utc(2026, 1, 15, 12, 7)
    assert parse_time("yesterday", NOW) == utc(2026, 2, 28, 5)
    assert parse_time("2026-01-15T07:07:00Z", NOW) == utc(2026, 1, 15, 7, 7)
    assert (zone_name(), said(NOW)) == ("America/New_York", "2026-03-01 07:00:00 EST")
    assert short_times(["2026-03-01T12:00:00.250Z", None], NOW) == ["07:00:00", "-"]


def test_dlx_tz_comes_before_tz(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert zone_name() == "UTC"

    monkeypatch.delenv("DLX_TZ")
    assert zone_name() == "Asia/Tokyo"


def test_an_unknown_zone_is_refused(monkeypatch):
    monkeypatch.setenv("DLX_TZ", "Berlin")

    with pytest.raises(DlxError, match=r"DLX_TZ: 'Berlin' .* Europe/Berlin"):
        zone_name()


def test_a_range_ends_after_it_begins():
    assert time_range("2h", "1h", NOW) == (NOW - timedelta(hours=2), NOW - timedelta(hours=1))
    assert time_range(None, None, NOW) == (None, None)
    with pytest.raises(typer.BadParameter, match="not after --since"):
        time_range("1h", "2h", NOW)


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["2026-03-01T07:07:00.000Z"], ["07:07:00"]),
        (["2026-03-01T07:07:00.000Z", "2026-02-01T07:07:00.000Z"], ["03-01 07:07:00", None]),
        (["2025-03-01T07:07:00.000Z"], ["2025-03-01 07:07:00"]),
    ],
)
def test_a_column_of_times_says_no_more_than_it_must(texts, short):
    assert short_times(texts, NOW)[0] == short[0]


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(seconds=12), "12s ago"),
        (timedelta(seconds=200), "3m ago"),
        (timedelta(minutes=-5), "in 5m"),
        (timedelta(hours=30), "30h ago"),
        (timedelta(days=3), "3d ago"),
        (timedelta(days=30), "2026-01-30"),
    ],
)
def test_a_distance_is_rounded_down(distance, words):
    assert relative((NOW - distance).isoformat(), NOW) == words
