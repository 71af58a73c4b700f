"""Vhosts that are made and deleted while several fronts run: who serves them, and when nobody."""

import asyncio
import time
from pathlib import Path

import pytest

from streaming.broker.events import Actor
from streaming.config import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.made_vhosts import MadeVhosts
from streaming.sequencer import making
from streaming.sequencer.emptying import empty
from streaming.sequencer.front import Front
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.making import Making, NotChangeableError
from tests.log_port import LogPort
from tests.unit.sequencer import test_front
from tests.unit.sequencer.test_front import BusyLog, a_front, log, until

__all__ = ["log"]

CONFIG = JobConfig(vhosts={"/": VhostSettings(sequenced=True)})
NAMED = JobConfig(vhosts={**CONFIG.vhosts, "orders": VhostSettings(sequenced=True)})
BY = Actor(None, "management ann")
TAKEOVER_S = 1.0


@pytest.fixture
def new(log: BusyLog, monkeypatch: pytest.MonkeyPatch) -> BusyLog:
    """The log of a vhost `orders` that nobody has written to. Fronts look often."""
    log.records.clear()
    log.end = 0
    log.listen_to = lambda _vhost, _topic: None  # type: ignore[attr-defined] # of `JobProgress`
    monkeypatch.setattr(test_front, "LOG", "dlx.log.orders")
    monkeypatch.setattr(making, "prepare_topics", lambda _config, _settings: None)
    monkeypatch.setattr(making, "LOOK_S", 0.05)
    return log


def a_making(
    folder: Path,
    name: str = "a",
    *,
    standby: bool = False,
    config: JobConfig = CONFIG,
    chosen: tuple[str, ...] = (),
    takeover_s: float = TAKEOVER_S,
) -> tuple[Front, Making]:
    """A front that serves made vhosts only."""
    ms = int(takeover_s * 1_000)
    front = a_front(folder, name, standby=standby, takeover_ms=ms, vhosts=())
    return front, Making(front, config, MadeVhosts(folder), chosen=chosen)


def test_what_another_front_has_made_is_led_after_as_long_as_ever(new, tmp_path):
    MadeVhosts(tmp_path).note("orders", "deleted")

    async def lives() -> float:
        other, follows = a_making(tmp_path, "other", standby=True)
        await follows.start()
        MadeVhosts(tmp_path).note("orders", "again")  # by a front that has not begun to lead it
        await until(lambda: follows.knows("orders"))
        begin_s = time.monotonic()
        await until(lambda: "orders" in other.server.vhosts)
        waited_s = time.monotonic() - begin_s
        await other.stop()
        return waited_s

    assert asyncio.run(lives()) > TAKEOVER_S / 2


def test_a_front_does_not_wait_for_itself(new, tmp_path):
    async def life() -> list[bool]:
        front, makes = a_making(tmp_path, standby=True, takeover_s=3_600)
        await makes.start()
        are_new = [await makes.make("orders")]
        await makes.delete("orders", BY)
        are_new.append(await makes.make("orders"))
        await front.stop()
        return are_new

    assert asyncio.run(life()) == [True, True]


def test_what_dlx_toml_names_without_a_log_is_not_made(new, tmp_path):
    plain = JobConfig(vhosts={**CONFIG.vhosts, "orders": VhostSettings()})

    async def life() -> None:
        front, makes = a_making(tmp_path, config=plain)
        await makes.start()
        with pytest.raises(NotChangeableError, match="sequenced = true"):
            await makes.make("orders")
        await front.stop()

    asyncio.run(life())
    assert MadeVhosts(tmp_path).read() == {}


def test_a_standby_does_not_lead_what_was_deleted_since_it_looked(new, tmp_path, monkeypatch):
    made = MadeVhosts(tmp_path)
    made.note("orders", "there")

    async def lives() -> None:
        other, follows = a_making(tmp_path, "other", standby=True)
        await follows.start()
        await until(lambda: follows.knows("orders"))
        monkeypatch.setattr(making, "LOOK_S", 60)
        made.note("orders", "deleted")
        await until(lambda: not follows.knows("orders"))
        assert (new.records, other.reason) == ([], None)
        await other.stop()

    asyncio.run(lives())


def test_what_was_led_again_after_a_loss_can_be_dropped(new, tmp_path):
    async def life() -> str | None:
        front, makes = a_making(tmp_path, standby=True)
        await makes.start()
        await makes.make("orders")
        vhost = front.server.vhosts["orders"]
        assert isinstance(vhost, LogVhost)
        vhost.fail("another front leads it")
        await until(lambda: front.led("orders") is None)
        MadeVhosts(tmp_path).note("orders", "deleted")
        await until(lambda: not makes.knows("orders"))
        await asyncio.sleep(0.5)  # what reads its log would have failed
        await front.stop()
        return front.reason

    assert asyncio.run(life()) is None


def test_what_another_front_began_to_delete_ends_here_with_its_connections(new, tmp_path):
    made = MadeVhosts(tmp_path)

    async def life() -> tuple[bool, str | None]:
        front, makes = a_making(tmp_path)
        await makes.start()
        await makes.make("orders")
        made.note("orders", "ending")
        await until(lambda: not makes.knows("orders"))
        is_there = "orders" in front.server.vhosts
        await front.stop()
        return is_there, front.reason

    assert asyncio.run(life()) == (False, None)
    assert made.read() == {"orders": "deleted"}


def test_of_those_who_ask_for_one_at_once_each_can_use_it_then(new, tmp_path):
    async def life() -> list[bool]:
        front, makes = a_making(tmp_path)
        await makes.start()

        async def ask() -> bool:
            makes.expect_makeable("orders")
            is_new = await makes.make("orders")
            assert "orders" in front.server.vhosts
            return is_new

        found = await asyncio.gather(ask(), ask(), ask())
        await front.stop()
        return list(found)

    assert sorted(asyncio.run(life())) == [False, False, True]


def test_what_a_configuration_names_later_stays_and_is_not_deleted_by_request(new, tmp_path):
    made = MadeVhosts(tmp_path)
    made.note("orders", "again")  # as a front that was killed then has left it

    async def life() -> None:
        front, makes = a_making(tmp_path, config=NAMED)
        await makes.start()
        with pytest.raises(NotChangeableError, match=r"'orders' is set in dlx\.toml"):
            await makes.delete("orders", BY)
        await front.stop()

    asyncio.run(life())

    assert made.read() == {"orders": "there"}


def test_a_front_of_chosen_vhosts_heeds_the_list_too(new, tmp_path):
    made = MadeVhosts(tmp_path)
    made.note("orders", "again")
    made.note("bills", "there")

    async def life() -> None:
        front, makes = a_making(tmp_path, chosen=("orders",))
        await makes.start()
        await until(lambda: "orders" in front.server.vhosts)
        assert made.read()["orders"] == "there"  # otherwise the next front would empty it
        assert not makes.knows("bills")
        with pytest.raises(NotChangeableError, match="--vhost"):
            makes.expect_makeable("more")
        made.note("orders", "deleted")
        await until(lambda: not makes.knows("orders"))
        await front.stop()

    asyncio.run(life())


def test_a_front_that_ends_lets_nobody_wait_for_a_vhost(new, tmp_path):
    async def life() -> None:
        front, makes = a_making(tmp_path)
        await makes.start()
        new.held_until = 9  # Kafka is slow
        asking = asyncio.ensure_future(makes.make("orders"))
        await until(lambda: makes.knows("orders"))
        front.is_ending = True
        with pytest.raises(ConnectionError, match="this front ends"):
            await asyncio.wait_for(asking, 10)
        await front.stop()

    asyncio.run(life())


def test_what_another_front_has_made_since_the_last_look_is_there_and_not_made_again(new, tmp_path):
    made = MadeVhosts(tmp_path)

    async def life() -> bool:
        front, makes = a_making(tmp_path)
        await makes.start()
        made.note("orders", "there")
        is_new = await makes.make("orders")
        await front.stop()
        return is_new

    assert asyncio.run(life()) is False
    assert made.read() == {"orders": "there"}  # otherwise the next front would empty it


def test_what_is_made_again_while_another_front_deletes_it_is_let_go_by_that(
    new, tmp_path, monkeypatch
):
    made = MadeVhosts(tmp_path)

    async def life() -> str | None:
        front, makes = a_making(tmp_path)
        await makes.start()
        await makes.make("orders")

        async def slow(vhost: LogVhost, by: Actor) -> bool:
            made.note("orders", "again", after="ending")
            return await empty(vhost, by)

        monkeypatch.setattr(making, "empty", slow)
        with pytest.raises(ConnectionError, match="made again"):
            await makes.delete("orders", BY)
        await until(lambda: "orders" in front.server.vhosts)
        await front.stop()
        return front.reason

    assert asyncio.run(life()) is None
    assert made.read() == {"orders": "there"}


def test_what_was_made_since_the_last_look_is_known_when_clients_come(new, tmp_path, monkeypatch):
    made = MadeVhosts(tmp_path)

    async def life() -> None:
        front, makes = a_making(tmp_path)
        monkeypatch.setattr(making, "LOOK_S", 60)
        await makes.start()
        made.note("bills", "there")
        named = LogPort().open()
        assert named.name in CONFIG.vhosts
        assert await front.may_serve(named)
        assert list(front.server.elsewhere) == ["bills"]
        await front.stop()

    asyncio.run(life())
