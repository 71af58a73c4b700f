"""A queue whose consumer rejects messages for a few causes, with tables.

One cause is the reason of the reject; the others are headers of the message.
"""

from typing import Any

from streaming.broker import commands
from tests.builders import Broker
from tests.unit.queries.recording import Recording

CAUSES = (
    "timeout after 31 ms calling 10.0.0.7:8080",
    "timeout after 8,120 ms calling 10.0.12.9:8081",
    "order 8f14e45f-ceea-467f-9575-1d6d0a5f2f1a of ann@shop.example is unknown\nat row 7",
    None,
)


def failures(root: Any) -> Recording:
    """Four rejected messages, a second apart, the third with a redrive behind it."""
    shop = Broker()
    recording = Recording(root, shop)
    shop.exchange("orders", "topic")
    shop.exchange("dlx", "fanout")
    shop.queue("work", dead_letter_exchange="dlx")
    shop.queue("lonely", dead_letter_exchange="nowhere")
    shop.queue("dead")
    shop.bind("orders", "work", "order.#")
    shop.bind("dlx", "dead")
    for number, cause in enumerate(CAUSES):
        headers: dict[str, Any] = {"tenant": f"shop/{number % 2}"}
        reason = cause if number == 1 else None
        if cause is not None and reason is None:
            headers["x-exception"] = cause
        if number == 2:
            headers["x-redrive-count"] = 1
        exchange, key = ("", "lonely") if cause is None else ("orders", f"order.{number}")
        shop.publish(exchange, key, f'{{"error": "E{number % 2}"}}', headers=headers)
        shop.get("lonely" if cause is None else "work", f"g{number}", 1, channel="c")
        shop.at(1000 * (number + 1))
        shop.do(commands.Reject(refs=(f"g{number}/0",), channel="c", reason=reason))
        recording.commit()
    return recording
