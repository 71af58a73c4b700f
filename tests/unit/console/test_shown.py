"""How values are written: one unit for one thing, and times that stay what they are."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from streaming.console.shown import iso, rate


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.0001, "0.01/s"),
        (1 / 60, "0.02/s"),
        (44 / 60, "0.7/s"),
        (0.96, "1/s"),
        (1.54, "1.5/s"),
        (9.96, "10/s"),
        (10.0, "10/s"),
        (53.6, "54/s"),
        (4_000.2, "4,000/s"),
    ],
)
def test_every_rate_is_by_the_second(value, said):
    assert rate(value) == said


def test_an_instant_of_any_kind_is_one_for_programs():
    assert iso(1_600_000_000) == iso("2020-09-13T12:26:40+00:00") == "2020-09-13T12:26:40+00:00"
    assert iso(None) == ""


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/queues", "as_of"),
        ("/search", "since"),
        ("/causes", "new_since"),
        ("/audit", "until"),
        ("/changes?queue=billing", "from"),
    ],
)
def test_a_time_of_day_gets_its_date_so_that_a_link_stays_the_same(shop_console, address, name):
    earlier = datetime.now(UTC) - timedelta(minutes=2)
    answer = shop_console.get(
        address,
        params={"queue": "billing", "name": "a b", name: f"{earlier:%H:%M:%S}"},
        follow_redirects=False,
    )
    location = answer.headers["location"]

    assert answer.status_code == 303
    assert f"{name}={earlier:%Y-%m-%d+%H%%3A%M%%3A%S}" in location
    assert "name=a+b" in location
    assert location.startswith(address.partition("?")[0])
    assert shop_console.get(location).status_code == 200


def test_a_queue_that_is_named_like_a_time_stays_a_queue(shop_console):
    answer = shop_console.get("/search?queue=10:05", follow_redirects=False)

    assert answer.status_code == 200
    assert 'value="10:05"' in answer.text


def test_a_time_that_is_none_is_refused_as_it_was_written(shop_console):
    answer = shop_console.get("/queues?as_of=25:99")

    assert answer.status_code == 400
    assert "25:99" in answer.text


@pytest.mark.parametrize("as_of", ["0", "2020-09-13 12:26:41", "0/0/2", "@1600000001"])
def test_a_page_of_the_past_says_when_that_was(shop_console, as_of):
    page = shop_console.get("/queues", params={"as_of": as_of}).text
    [said] = re.findall(r'id="shown-at">(.*?)<', page)

    assert said.startswith("How things were at 2020-09-13 12:26:4")
    assert "UTC" in said
    assert 'id="shown-at"' not in shop_console.get("/queues").text


def test_the_curve_says_its_units_and_only_what_there_was(shop_console):
    def drawn(queue):
        page = shop_console.get(f"/queue?queue={queue}&stretch=15m&as_of=1").text
        return json.loads(unescape(re.findall(r"data-curve='(.*?)'", page)[0]))

    billing, dead = drawn("billing"), drawn("dead")

    assert billing["unit"] == "messages in the queue"
    assert re.fullmatch(r"messages in [\d.]+ m?s", billing["bars_unit"])
    span = billing["bars_unit"].removeprefix("messages in ")
    assert [one["label"] for one in billing["series"]] == ["depth", f"died in {span}"]
    assert [one["label"] for one in dead["series"]] == ["depth"]
