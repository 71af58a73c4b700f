"""Long answers take turns: between two steps of any of them, the broker's clients are served."""

import asyncio

from streaming.management.pacing import Pace, next_turn


def test_of_many_answers_one_makes_one_step_in_a_round_of_the_loop():
    done: list[str] = []

    async def answer(name: str) -> None:
        for _ in range(20):
            await next_turn()
            done.append(name)

    async def clients() -> None:
        while True:
            done.append("clients")
            await asyncio.sleep(0)

    async def run() -> None:
        serving = asyncio.create_task(clients())
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
