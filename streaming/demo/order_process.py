"""The demo's story: an order process with RabbitMQ's topology, and what goes wrong in it.

    orders (topic) -- order.*.created --> payments  -- acked --> order.*.paid (a new message)
       |   |   |                            | card declined: rejected
       |   |   |                            +--> payments.retry -- 2 s, expired --> payments
       |   |   |                            | after three times: published to orders.parking
       |   |   |   order.*.created --> invoices  -- release 2.0 rejects yen ----> invoices.failed
       |   |   +-- order.*.paid ----> shipping (quorum) -- requeued too often --> orders.parking
       |   +------ quote.# ---------> quotes    -- 1.5 s, expired --------------> orders.parking
       +---------- # ---------------> dashboard -- longer than 50: maxlen ------> orders.overflow
       |                                            overflow -- longer than 200: maxlen, gone
       +-- no binding matches: alternate exchange orders.unroutable --> unroutable

Everything here is a value or a function of the order number, so every run is the same.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from streaming.client import Properties

PAYMENTS: Final = "payments"
INVOICES: Final = "invoices"
FAILED_INVOICES: Final = "invoices.failed"
QUOTES: Final = "quotes"
SHIPPING: Final = "shipping"
VHOST: Final = "shop"
PARKING_EXCHANGE: Final = "orders.parking"
ORDERS: Final = "orders"

RETRY_TTL_MS: Final = 2_000
QUOTES_TTL_MS: Final = 1_500
SHORT_QUOTE_TTL_MS: Final = 700
DASHBOARD_LENGTH: Final = 50
OVERFLOW_LENGTH: Final = 200
MAX_DEAD_LETTERS: Final = 1_000
"""Per queue, by a policy: traffic without end does not fill the disk."""

MAX_REJECTIONS: Final = 3
DELIVERY_LIMIT: Final = 2

_PROPERTIES: Final[Properties] = {"content_type": "application/json", "delivery_mode": 2}

CURRENCIES: Final = {"eu": "EUR", "us": "USD", "asia": "JPY"}
"""Region -> the currency of its orders."""

REGIONS: Final = tuple(CURRENCIES)

GOOD_RELEASE: Final = "1.9"
BAD_RELEASE: Final = "2.0"
REPAIRED_RELEASE: Final = "2.1"
"""The releases of the invoices worker, in their order."""

POISONED: Final = "JPY"
"""The currency that the bad release cannot round: yen have no cents."""

QUEUES: Final = {
    PAYMENTS: "worker acks, rejects, or parks after 3 tries",
    "payments.retry": "waits 2 s, then back to payments",
    INVOICES: "its release 2.0 rejects every order in yen",
    FAILED_INVOICES: "what invoices rejected, until it is sent back",
    SHIPPING: "quorum; some parcels never fit; delivery limit 2",
    QUOTES: "slow worker; quotes expire after 1.5 s",
    "parking-lot": "messages that need a human",
    "dashboard": "holds 50, no consumer: drops its oldest",
    "overflow": "what dashboard dropped; holds 200",
    "unroutable": "behind the alternate exchange: misspelt keys",
}
"""Queue -> its role, in the order of the screen."""

WORKED: Final = (PAYMENTS, "payments.retry", INVOICES, SHIPPING, QUOTES)
"""The queues that are empty once all work is done."""

PREFETCH: Final = {PAYMENTS: 100, INVOICES: 100, SHIPPING: 100, QUOTES: 1}
"""Queue with a worker -> its prefetch."""

Decision = Literal["ack", "reject", "requeue", "park"]


class Order(NamedTuple):
    """A message to publish, with AMQP headers and properties."""

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties
    headers: dict[str, Any]


def _exchange(name: str, kind: str, **arguments: Any) -> dict[str, Any]:
    exchange = {"name": name, "type": kind, "arguments": arguments}
    return {"op": "declare_exchange", "exchange": exchange}


def _queue(name: str, dead_letter_exchange: str | None = None, **arguments: Any) -> dict[str, Any]:
    table = {f"x-{argument.replace('_', '-')}": value for argument, value in arguments.items()}
    if dead_letter_exchange is not None:
        table["x-dead-letter-exchange"] = dead_letter_exchange
    return {"op": "declare_queue", "queue": {"name": name, "arguments": table}}


def _bind(source: str, destination: str, routing_key: str = "") -> dict[str, Any]:
    binding = {"source": source, "destination": destination, "routing_key": routing_key}
    return {"op": "bind", "binding": binding}


def _policy(name: str, pattern: str, max_length: int) -> dict[str, Any]:
    policy = {"name": name, "pattern": pattern, "apply-to": "queues", "priority": 0}
    return {"op": "set_policy", "policy": {**policy, "definition": {"max-length": max_length}}}


TOPOLOGY: Final[tuple[dict[str, Any], ...]] = (
    _exchange("orders.unroutable", "fanout"),
    _exchange(ORDERS, "topic", **{"alternate-exchange": "orders.unroutable"}),
    _exchange("orders.retry", "direct"),
    _exchange(PARKING_EXCHANGE, "fanout"),
    _exchange("orders.overflow", "fanout"),
    _queue(PAYMENTS, "orders.retry", dead_letter_routing_key=PAYMENTS),
    _queue("payments.retry", "", message_ttl=RETRY_TTL_MS, dead_letter_routing_key=PAYMENTS),
    _queue(INVOICES, "", dead_letter_routing_key=FAILED_INVOICES),
    _queue(FAILED_INVOICES),
    _queue(SHIPPING, PARKING_EXCHANGE, queue_type="quorum", delivery_limit=DELIVERY_LIMIT),
    _queue(QUOTES, PARKING_EXCHANGE, message_ttl=QUOTES_TTL_MS),
    _queue("dashboard", "orders.overflow", max_length=DASHBOARD_LENGTH),
    _queue("overflow", max_length=OVERFLOW_LENGTH),
    _queue("parking-lot"),
    _queue("unroutable"),
    _bind(ORDERS, PAYMENTS, "order.*.created"),
    _bind(ORDERS, INVOICES, "order.*.created"),
    _bind(ORDERS, SHIPPING, "order.*.paid"),
    _bind(ORDERS, QUOTES, "quote.#"),
    _bind(ORDERS, "dashboard", "order.#"),
    _bind("orders.retry", "payments.retry", PAYMENTS),
    _bind(PARKING_EXCHANGE, "parking-lot"),
    _bind("orders.overflow", "overflow"),
    _bind("orders.unroutable", "unroutable"),
    _policy("bounded", r"^(parking-lot|unroutable|invoices\.failed)$", MAX_DEAD_LETTERS),
)
"""Commands, each after those it depends on, the policy last; running them again changes nothing."""


DEFINITIONS: Final = {
    "vhosts": [{"name": VHOST}],
    "policies": [{**TOPOLOGY[-1]["policy"], "vhost": VHOST}],
}
"""What no AMQP client can declare: the policy, as a definitions.json."""


def order(number: int) -> Order:
    """The message with a number, from 0, that the shop publishes.

    Every twenty are fourteen orders, five quotes (one urgent), and one with a misspelt key.
    """
    region = REGIONS[number % len(REGIONS)]
    slot = number % 20
    properties: Properties = {**_PROPERTIES, "message_id": f"shop-{number}"}
    if slot == 19:  # noqa: PLR2004 (the docstring says the shares)
        routing_key = f"ordre.{region}.created"
    elif slot % 4 == 2:  # noqa: PLR2004
        routing_key = f"quote.{region}"
        if slot == 2:  # noqa: PLR2004
            properties["expiration"] = str(SHORT_QUOTE_TTL_MS)
    else:
        routing_key = f"order.{region}.created"
    headers = {"shop": region, "currency": CURRENCIES[region]}
    body = {"order": number, "region": region, "cents": 500 + number * 37 % 9500}
    return Order(ORDERS, routing_key, compact_json(body), properties, headers)


def paid(body: bytes) -> Order:
    """The message after a payment: the order goes to shipping."""
    routing_key = f"order.{_member(body, 'region', 'eu')}.paid"
    return Order(ORDERS, routing_key, body, _PROPERTIES, {"paid": True})


def parked(body: bytes) -> Order:
    """The message for an order that payments gives up on, for a human to look at."""
    return Order(PARKING_EXCHANGE, PAYMENTS, body, _PROPERTIES, {"given-up-after": MAX_REJECTIONS})


def payment(body: bytes, headers: dict[str, Any]) -> Decision:
    """What the payments worker does: it declines one card in eight, half of them on every try."""
    number = int(_member(body, "order", 0))
    tries = rejections(headers, PAYMENTS)
    if tries >= MAX_REJECTIONS:
        return "park"
    if number % 8 == 1 and (number % 16 == 1 or tries == 0):
        return "reject"
    return "ack"


def invoice(headers: dict[str, Any], release: str) -> Decision:
    """What the invoices worker does: its bad release fails on one currency."""
    is_poisoned = release == BAD_RELEASE and headers.get("currency") == POISONED
    return "reject" if is_poisoned else "ack"


def shipment(body: bytes) -> Decision:
    """What the shipping worker does: one parcel in nine never fits the van."""
    return "requeue" if int(_member(body, "order", 0)) % 9 == 0 else "ack"


def rejections(headers: dict[str, Any], queue: str) -> int:
    """How often a message was rejected in a queue, according to its x-death."""
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
    """A member of a body, or a default for a message that is not the shop's."""
    try:
        document = json.loads(body)
    except ValueError:
        return otherwise
    value = document.get(name, otherwise) if isinstance(document, dict) else otherwise
    return value if isinstance(value, type(otherwise)) else otherwise


def compact_json(document: dict[str, Any]) -> bytes:
    """JSON without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()
