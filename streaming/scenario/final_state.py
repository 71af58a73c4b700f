"""The state at the end of a scenario: the messages of each queue and their death records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaming.scenario.narration import MORE, Sentence
from streaming.scenario.play import Outcome
from streaming.scenario.wording import counted, exchange_words, keys_words, quoted


def final_state(outcome: Outcome) -> Iterator[Sentence]:
    """Describe the outcome's final observation."""
    for queue, messages in outcome["queues"].items():
        there = f"{MORE}queue {quoted(queue)}"
        if messages is None:
            yield f"{there} no longer exists", "quiet"
            continue
        yield f"{there}: {_count(messages)}", "plain"
        for message in messages:
            yield from _message(message)
        for entry in outcome["unacked"].get(queue, ()):
            yield f"{MORE * 2}{quoted(entry['body'])} is still unacked as {entry['ref']}", "plain"
    for queue, messages in outcome.get("second_pass", {}).items():
        yield f"{MORE}queue {quoted(queue)}, a little later: {_count(messages)}", "plain"
        for message in messages:
            yield from _message(message)


def _count(messages: list[dict[str, Any]]) -> str:
    return counted(len(messages), "message") if messages else "empty"


def _message(message: dict[str, Any]) -> Iterator[Sentence]:
    redelivered = ", redelivered" if message["redelivered"] else ""
    yield f"{MORE * 2}{quoted(message['body'])}{redelivered}", "plain"
    headers = message["headers"] or {}
    deaths = headers.get("x-death")
    if not isinstance(deaths, list):
        return
    for index, death in enumerate(deaths):
        if isinstance(death, dict):
            yield f"{MORE * 3}x-death[{index}]: {_death(death)}", "moved"
    for which in ("first", "last"):
        names = [f"x-{which}-death-{part}" for part in ("reason", "queue", "exchange")]
        if all(isinstance(headers.get(name), str) for name in names):
            reason, queue, exchange = (headers[name] for name in names)
            words = f"{reason}, {quoted(queue)}, {quoted(exchange)}"
            yield f"{MORE * 3}x-{which}-death-reason, -queue, -exchange: {words}", "quiet"


def _death(death: dict[str, Any]) -> str:
    """An entry of x-death; a client may have written anything into it."""
    count = death.get("count")
    words = f"{death.get('reason')} in queue {quoted(str(death.get('queue')))}"
    words += ", once" if count == 1 else f", {count} times"
    exchange, keys = death.get("exchange"), death.get("routing-keys")
    if isinstance(exchange, str):
        words += f"; it came through {exchange_words(exchange)}"
    if isinstance(keys, list) and keys:
        words += f" with {keys_words(str(key) for key in keys)}"
    if "original-expiration" in death:
        words += f"; its expiration was {death['original-expiration']} ms"
    return words
