"""The story of the demo: an order process in RabbitMQ's words, and what goes wrong in it.

    orders (topic) -- order.*.created --> payments  -- acked --> order.*.paid (a new message)
       |   |   |                            | card declined: rejected
       |   |   |                            +--> payments.retry -- 2 s, expired --> payments
       |   |   |                            | after three times: published to orders.parking
       |   |   +-- order.*.paid ----> shipping (quorum) -- returned too often --> orders.parking
       |   +------ quote.# ---------> quotes    -- 1.5 s, expired --------------> orders.parking
       +---------- # ---------------> dashboard -- longer than 50: maxlen ------> orders.overflow
       |                                            overflow -- longer than 200: maxlen, gone
       +-- nothing takes it: alternate exchange orders.unroutable --> unroutable

Everything here is a value or a function of the order's number: each run tells the same story.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

PAYMENTS: Final = "payments"
QUOTES: Final = "quotes"
SHIPPING: Final = "shipping"
PARKING_EXCHANGE: Final = "orders.parking"
ORDERS: Final = "orders"

RETRY_TTL_MS: Final = 2_000
QUOTES_TTL_MS: Final = 1_500
SHORT_QUOTE_TTL_MS: Final = 700
DASHBOARD_LENGTH: Final = 50
OVERFLOW_LENGTH: Final = 200
MOST_REJECTIONS: Final = 3
DELIVERY_LIMIT: Final = 2

REGIONS: Final = ("eu", "us", "asia")

QUEUES: Final = (
    PAYMENTS,
    "payments.retry",
    SHIPPING,
    QUOTES,
    "parking-lot",
    "dashboard",
    "overflow",
    "unroutable",
)
"""In the order in which they are shown."""

WORKED: Final = (PAYMENTS, "payments.retry", SHIPPING, QUOTES)
"""Those that are empty when all work is done."""

Decision = Literal["ack", "reject", "requeue", "park"]


class Order(NamedTuple):
    """A message to publish; headers and properties are AMQP's."""

    exchange: str
    routing_key: str
    body: bytes
    properties: dict[str, Any]
    headers: dict[str, Any]


def _exchange(name: str, kind: str, **arguments: Any) -> dict[str, Any]:
    exchange = {"name": name, "type": kind, "arguments": arguments}
    return {"op": "declare_exchange", "exchange": exchange}


def _queue(name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"op": "declare_queue", "queue": {"name": name, "arguments": arguments or {}}}


def _bind(source: str, destination: str, routing_key: str = "") -> dict[str, Any]:
    binding = {"source": source, "destination": destination, "routing_key": routing_key}
    return {"op": "bind", "binding": binding}


TOPOLOGY: Final[tuple[dict[str, Any], ...]] = (
    _exchange("orders.unroutable", "fanout"),
    _exchange(ORDERS, "topic", **{"alternate-exchange": "orders.unroutable"}),
    _exchange("orders.retry", "direct"),
    _exchange(PARKING_EXCHANGE, "fanout"),
    _exchange("orders.overflow", "fanout"),
    _queue(
        PAYMENTS,
        {"x-dead-letter-exchange": "orders.retry", "x-dead-letter-routing-key": PAYMENTS},
    ),
    _queue(
        "payments.retry",
        {
            "x-message-ttl": RETRY_TTL_MS,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": PAYMENTS,
        },
    ),
    _queue(
        SHIPPING,
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": PARKING_EXCHANGE,
        },
    ),
    _queue(
        QUOTES,
        {"x-message-ttl": QUOTES_TTL_MS, "x-dead-letter-exchange": PARKING_EXCHANGE},
    ),
    _queue(
        "dashboard",
        {"x-max-length": DASHBOARD_LENGTH, "x-dead-letter-exchange": "orders.overflow"},
    ),
    _queue("overflow", {"x-max-length": OVERFLOW_LENGTH}),
    _queue("parking-lot"),
    _queue("unroutable"),
    _bind(ORDERS, PAYMENTS, "order.*.created"),
    _bind(ORDERS, SHIPPING, "order.*.paid"),
    _bind(ORDERS, QUOTES, "quote.#"),
    _bind(ORDERS, "dashboard", "order.#"),
    _bind("orders.retry", "payments.retry", PAYMENTS),
    _bind(PARKING_EXCHANGE, "parking-lot"),
    _bind("orders.overflow", "overflow"),
    _bind("orders.unroutable", "unroutable"),
)
"""Commands, each after those it needs; carried out again they change nothing."""


def order(number: int) -> Order:
    """The message that the shop publishes as its `number`-th, counted from 0.

    Of twenty: fourteen orders, five quotes (one in a hurry), one with a misspelt routing key.
    """
    region = REGIONS[number % len(REGIONS)]
    slot = number % 20
    properties: dict[str, Any] = {
        "content_type": "application/json",
        "message_id": f"shop-{number}",
        "delivery_mode": 2,
    }
    if slot == 19:  # noqa: PLR2004 (the docstring says the shares)
        routing_key = f"ordre.{region}.created"
    elif slot % 4 == 1:
        routing_key = f"quote.{region}"
        if slot == 1:
            properties["expiration"] = str(SHORT_QUOTE_TTL_MS)
    else:
        routing_key = f"order.{region}.created"
    body = {"order": number, "region": region, "cents": 500 + number * 37 % 9500}
    return Order(ORDERS, routing_key, _json(body), properties, {"shop": region})


def paid(body: bytes) -> Order:
    """What follows a payment: the order goes to shipping."""
    return Order(
        ORDERS,
        f"order.{_member(body, 'region', 'eu')}.paid",
        body,
        {"content_type": "application/json", "delivery_mode": 2},
        {"paid": True},
    )


def parked(body: bytes) -> Order:
    """An order that payments gives up: for a human to look at."""
    return Order(
        PARKING_EXCHANGE,
        PAYMENTS,
        body,
        {"content_type": "application/json", "delivery_mode": 2},
        {"given-up-after": MOST_REJECTIONS},
    )


def payment(body: bytes, headers: dict[str, Any]) -> Decision:
    """What payments does: one card in eight is declined, every other of these for ever."""
    number = int(_member(body, "order", 0))
    tries = rejections(headers, PAYMENTS)
    if tries >= MOST_REJECTIONS:
        return "park"
    if number % 8 == 0 and (number % 16 == 0 or tries == 0):
        return "reject"
    return "ack"


def shipment(body: bytes) -> Decision:
    """What the shipping worker does: one parcel in nine does not fit the van, and never will."""
    return "requeue" if int(_member(body, "order", 0)) % 9 == 0 else "ack"


def rejections(headers: dict[str, Any], queue: str) -> int:
    """How often a message was rejected in a queue, as its x-death says."""
    deaths = headers.get("x-death")
    entries: Iterable[Any] = deaths if isinstance(deaths, list) else ()
    return sum(
        int(death.get("count", 0))
        for death in entries
        if isinstance(death, dict)
        and death.get("queue") == queue
        and death.get("reason") == "rejected"
    )


def _member(body: bytes, name: str, otherwise: Any) -> Any:
    """A member of a body; of one that somebody else published, the stand-in."""
    try:
        document = json.loads(body)
    except ValueError:
        return otherwise
    value = document.get(name, otherwise) if isinstance(document, dict) else otherwise
    return value if isinstance(value, type(otherwise)) else otherwise


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
