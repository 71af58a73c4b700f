"""A page that several viewers ask for at once is computed once, and again after a change."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from streaming.console import shared
from streaming.console.shared import SharedPages


def body_of(answer):
    """The body of a page that is ready."""
    assert answer is not None
    return answer.body


class Computed:
    """Computes a page when it is let go, and counts."""

    def __init__(self, status=200):
        self.count = 0
        self.go = asyncio.Event()
        self.status = status

    async def __call__(self):
        self.count += 1
        await self.go.wait()
        return PlainTextResponse(f"page {self.count}", self.status, {"server-timing": "page"})


def test_twenty_viewers_cost_one_computation():
    async def ask():
        pages, computed = SharedPages(), Computed()
        asked = [asyncio.create_task(pages.get("key", 1, computed)) for _ in range(20)]
        await asyncio.sleep(0)
        computed.go.set()
        answers = [body_of(await one) for one in asked]
        later = await pages.get("key", 1, computed)
        other = await pages.get("other", 1, computed)
        return computed.count, {*answers, body_of(later)}, body_of(other)

    assert asyncio.run(ask()) == (2, {b"page 1"}, b"page 2")


def test_a_viewer_who_goes_does_not_take_the_page_along():
    async def ask():
        pages, computed = SharedPages(), Computed()
        first, second = (asyncio.create_task(pages.get("key", 1, computed)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        computed.go.set()
        return body_of(await second)

    assert asyncio.run(ask()) == b"page 1"


@pytest.mark.parametrize(("status", "fresh_s"), [(400, 60.0), (200, -1.0)])
def test_a_refusal_and_an_old_page_are_computed_again(monkeypatch, status, fresh_s):
    monkeypatch.setattr(shared, "FRESH_S", fresh_s)

    async def ask():
        pages, computed = SharedPages(), Computed(status)
        computed.go.set()
        return [body_of(await pages.get("key", 1, computed)) for _ in range(2)]

    assert asyncio.run(ask()) == [b"page 1", b"page 2"]


def test_after_a_change_nothing_is_known():
    async def ask():
        pages, computed = SharedPages(), Computed()
        computed.go.set()
        await pages.get("key", 1, computed)
        pages.forget()
        return body_of(await pages.get("key", 1, computed))

    assert asyncio.run(ask()) == b"page 2"


def test_a_slow_page_is_answered_at_once_and_kept_until_it_is_fetched():
    async def ask():
        pages, computed = SharedPages(), Computed()
        early = await pages.get("key", 1, computed, 0.01)
        computed.go.set()
        later = await pages.get("key", 2, computed)  # a batch has come meanwhile
        return early, body_of(later), computed.count

    assert asyncio.run(ask()) == (None, b"page 1", 1)


def test_after_another_batch_a_page_is_computed_again():
    async def ask():
        pages, computed = SharedPages(), Computed()
        computed.go.set()
        return [body_of(await pages.get("key", version, computed)) for version in (1, 1, 2, None)]

    assert asyncio.run(ask()) == [b"page 1", b"page 1", b"page 2", b"page 3"]
