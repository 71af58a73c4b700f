"""Long answers take turns: between two steps of any of them, the broker's clients are served."""

import asyncio
import base64
from itertools import groupby, pairwise
from typing import Any

from streaming.amqp.login import User
from streaming.management.app import Management
from streaming.management.conditions import answer_if
from streaming.management.listing import Listing
from streaming.management.memory import MemoryFront
from streaming.management.pacing import Pace, next_turn
from tests.amqp_client import memory_broker

_WHO_AM_I = {
    "type": "http",
    "method": "GET",
    "path": "/api/whoami",
    "query_string": b"",
    "headers": [(b"authorization", b"Basic " + base64.b64encode(b"guest:guest"))],
    "client": ("127.0.0.1", 50_000),
    "server": ("127.0.0.1", 15_672),
}


async def clients(done: list[Any]) -> None:
    """Be served in each round of the loop, and note it."""
    while True:
        done.append("clients")
        await asyncio.sleep(0)


def test_of_many_answers_one_makes_one_step_in_a_round_of_the_loop():
    done: list[str] = []

    async def answer(name: str) -> None:
        for _ in range(20):
            await next_turn()
            done.append(name)

    async def run() -> None:
        serving = asyncio.create_task(clients(done))
        await asyncio.gather(*(answer(f"answer {number}") for number in range(10)))
        serving.cancel()

    asyncio.run(run())

    steps = "".join("c" if one == "clients" else "a" for one in done)
    assert steps.count("a") == 200
    assert "aa" not in steps
    assert [one for one in done if one != "clients"][:10] == [f"answer {n}" for n in range(10)]


def test_an_answer_that_nobody_waits_for_any_more_keeps_no_other_one():
    async def run() -> list[int]:
        done: list[int] = []

        async def answer(number: int) -> None:
            await next_turn()
            done.append(number)

        tasks = [asyncio.create_task(answer(number)) for number in range(6)]
        await asyncio.sleep(0)
        for number in (0, 1, 3, 5):
            tasks[number].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await answer(6)
        return done

    assert asyncio.run(run()) == [2, 4, 6]


def test_items_are_paced_and_put_in_order():
    async def run() -> tuple[list[int], list[int]]:
        pace = Pace()
        items = [item async for item in pace.each(range(1_000))]
        return items, await pace.in_order(items, reverse=True, most=3)

    assert asyncio.run(run()) == (list(range(1_000)), [999, 998, 997])


def test_items_come_in_parts_with_rests_between(monkeypatch):
    monkeypatch.setattr("streaming.management.pacing.STEP_S", 0.0)
    monkeypatch.setattr("streaming.management.pacing._PART", 4)
    done: list[object] = []

    async def run() -> None:
        serving = asyncio.create_task(clients(done))
        async for part in Pace().parts(range(10)):
            done.append(list(part))  # noqa: PERF401 - in the order of what happens
        serving.cancel()

    asyncio.run(run())

    assert [one for one in done if one != "clients"] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert not [pair for pair in pairwise(done) if "clients" not in pair]


def test_clients_are_served_between_the_login_of_a_request_and_its_answer(monkeypatch):
    management = Management(MemoryFront(memory_broker()))
    done: list[str] = []

    let_in = management.api.gate.log_in

    def log_in(name: str, password: bytes, place: str) -> User:
        done.append("login")
        return let_in(name, password, place)

    async def make(*given: Any) -> Any:
        done.append("answer")
        return await answer_if(*given)

    monkeypatch.setattr(management.api.gate, "log_in", log_in)
    monkeypatch.setattr("streaming.management.app.answer_if", make)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        done.append(str(message["type"]))

    async def run() -> None:
        serving = asyncio.create_task(clients(done))
        await management(dict(_WHO_AM_I), receive, send)
        serving.cancel()

    asyncio.run(run())

    first, last = done.index("login"), done.index("http.response.start")
    steps = [one for one, _ in groupby(done[first : last + 1])]
    assert steps == ["login", "clients", "answer", "clients", "http.response.start"]


def test_what_a_long_list_was_made_of_is_freed_in_parts(monkeypatch):
    monkeypatch.setattr("streaming.management.pacing.STEP_S", 0.0)
    monkeypatch.setattr("streaming.management.pacing._PART", 4)
    done: list[str] = []

    class Item(dict[str, Any]):
        def __del__(self) -> None:
            done.append("freed")

    async def run() -> None:
        serving = asyncio.create_task(clients(done))
        items = (Item(name=f"q{number}") for number in range(40))
        await Listing({}, ("name",)).reply(items)
        serving.cancel()

    asyncio.run(run())

    runs = [len(list(group)) for one, group in groupby(done) if one == "freed"]
    assert sum(runs) == 40
    assert max(runs) <= 5  # a part, and the one that was written last
