"""The first page says which AMQP front leads, as far as Kafka has told."""

import re
import time
from typing import ClassVar

from streaming.console import fronts
from streaming.console.asking import FRESH_S
from streaming.console.fronts import FrontWatch, Heard, KafkaFronts
from streaming.sequencer.leader_heartbeats import Beat, Leader
from tests.builders import Broker
from tests.fixtures.waiting import wait_until
from tests.unit.queries.recording import Recording


def test_the_front_that_was_heard_is_told_once_kafka_has_answered(tmp_path):
    heard = {"shop": Heard("one", at_s=time.monotonic(), takeover_s=3.0)}
    watch = FrontWatch(lambda _config: heard)

    wait_until(lambda: watch.of(tmp_path) is not None)

    assert watch.of(tmp_path) == heard


def test_without_an_answer_nothing_is_known(tmp_path):
    asked = []

    def fail(config):
        asked.append(config)
        raise OSError("no answer")

    watch = FrontWatch(fail)

    assert watch.of(tmp_path) is None
    wait_until(lambda: asked)
    assert watch.of(tmp_path) is None


def test_a_front_leads_until_a_standby_would_take_over_or_it_says_that_it_stops():
    now_s = time.monotonic()

    assert Heard("one", at_s=now_s, takeover_s=3.0, told_s=now_s).leads
    assert not Heard("one", at_s=now_s - FRESH_S - 3.5, takeover_s=3.0, told_s=now_s).leads
    assert not Heard("one", ended=True, at_s=now_s, takeover_s=3.0, told_s=now_s).leads
    assert not Heard("").leads


def test_a_front_that_speaks_leads_also_for_the_first_who_looks_after_a_pause(
    tmp_path, monkeypatch
):
    """Once, the page showed what was heard before the pause, and called the front silent."""
    now_s = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(fronts, "PATIENCE_S", 3_600.0)
    watch = FrontWatch(
        lambda _config: {"shop": Heard("one", at_s=now_s[0] - 0.4, takeover_s=3.0, told_s=now_s[0])}
    )

    for pause_s in (0.0, 228.0, 12.0):
        now_s[0] += pause_s
        found = watch.of(tmp_path)
        assert found is not None
        assert found["shop"].leads
        assert found["shop"].silent_s < 1


def test_a_job_without_sequenced_vhosts_asks_nobody(tmp_path):
    file = tmp_path / "dlx.toml"
    file.write_text('[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n')

    assert KafkaFronts()(file) == {}


class Listening:
    """In the place of `Leaders`: a consumer, of which the test counts how many there were."""

    opened: ClassVar[list["Listening"]] = []
    heard_s: ClassVar[float] = 0.0

    def __init__(self, _properties, _topic):
        self.is_current, self.is_closed = True, False
        self.opened.append(self)

    def of(self, _vhost, _topic):
        return Leader(Beat("one", 0), self.heard_s)

    def close(self):
        self.is_closed = True


def test_one_consumer_is_kept_while_someone_looks_and_closed_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.sequencer.leader_heartbeats.Leaders", Listening)
    monkeypatch.setattr(Listening, "opened", [])
    monkeypatch.setattr(Listening, "heard_s", time.monotonic() + 3_600)
    file = tmp_path / "dlx.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n[vhosts.shop]\nsequenced = true\n'
    )
    ask = KafkaFronts(unwatched_s=0.2)

    for _ in range(3):
        assert ask(file)["shop"].leads
    [kept] = Listening.opened
    wait_until(lambda: kept.is_closed)

    assert ask(file)["shop"].leads
    assert len(Listening.opened) == 2
    monkeypatch.setattr(Listening, "heard_s", time.monotonic() - 3_600)
    assert not ask(file)["shop"].leads
    assert len(Listening.opened) == 3, "a kept consumer that hears nothing is replaced"


def test_administrators_see_the_front_of_each_vhost_on_the_first_page(
    make_client, shop_root, tmp_path
):
    config = tmp_path / "dlx.toml"
    config.write_text("")
    heard = {
        "shop": Heard("one", at_s=time.monotonic(), takeover_s=3_600.0),
        "stock": Heard(""),
        "<b>": Heard("two", ended=True),
    }
    watch = FrontWatch(lambda _config: heard)
    wait_until(lambda: watch.of(config) is not None)

    page = make_client(shop_root, config=config, fronts=watch).get("/").text

    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(\w*)</td>", page)
    assert rows[-3:] == [
        ("shop", "one", "leads"),
        ("stock", "none was heard", ""),
        ("&lt;b&gt;", "two", "ended"),
    ]
    assert page.count("none compared yet") == 3
    assert "AMQP fronts" not in make_client(shop_root).get("/").text


def test_the_last_range_whose_digests_are_equal_is_shown(make_client, tmp_path):
    broker = Broker()
    recording = Recording(tmp_path / "tables", broker)
    recording.detail = {"compared": {"shop": (4_096, 8_192)}}
    broker.queue("work")
    recording.commit()
    recording.close()
    config = tmp_path / "dlx.toml"
    config.write_text("")
    watch = FrontWatch(lambda _config: {"shop": Heard("one")})
    wait_until(lambda: watch.of(config) is not None)

    page = make_client(recording.root, config=config, fronts=watch).get("/").text

    assert "<td>equal, last from offset 4,096 to 8,192</td>" in page
