"""The demo's order process: its topology is valid, and its messages take the documented ways."""

from streaming.demo.order_process import (
    BAD_RELEASE,
    DASHBOARD_LENGTH,
    DELIVERY_LIMIT,
    FAILED_INVOICES,
    GOOD_RELEASE,
    INVOICES,
    MAX_DEAD_LETTERS,
    MAX_REJECTIONS,
    PAYMENTS,
    QUEUES,
    QUOTES,
    QUOTES_TTL_MS,
    REPAIRED_RELEASE,
    RETRY_TTL_MS,
    SHIPPING,
    SHORT_QUOTE_TTL_MS,
    invoice,
    order,
    paid,
    parked,
    payment,
    rejections,
    shipment,
)
from tests.unit.demo.staging import send, staged


def depths(broker, *names):
    return {name: broker.depth(name) for name in names}


def test_every_declared_queue_is_known_to_the_demo():
    broker = staged()

    assert set(broker.shard.vhost.queues) == set(QUEUES)


def test_twenty_messages_are_fourteen_orders_five_quotes_and_a_misspelt_one():
    keys = [order(number).routing_key.split(".")[0] for number in range(20)]

    assert {key: keys.count(key) for key in keys} == {"order": 14, "quote": 5, "ordre": 1}


def test_an_order_goes_to_payments_and_to_the_dashboard():
    broker = staged()

    send(broker, order(0))

    assert depths(broker, PAYMENTS, "dashboard", "unroutable") == {
        PAYMENTS: 1,
        "dashboard": 1,
        "unroutable": 0,
    }


def test_the_bad_release_rejects_orders_in_yen_alone():
    headers = {currency: {"currency": currency} for currency in ("EUR", "USD", "JPY")}

    decisions = {
        (release, currency): invoice(table, release)
        for release in (GOOD_RELEASE, BAD_RELEASE, REPAIRED_RELEASE)
        for currency, table in headers.items()
    }

    assert [case for case, decision in decisions.items() if decision != "ack"] == [
        (BAD_RELEASE, "JPY")
    ]
    assert [order(number).headers["currency"] for number in range(3)] == ["EUR", "USD", "JPY"]


def test_a_rejected_invoice_waits_in_a_queue_that_is_bounded():
    broker = staged()
    send(broker, order(5))
    broker.get(INVOICES, "g")

    broker.reject("g/0")

    assert depths(broker, INVOICES, FAILED_INVOICES) == {INVOICES: 0, FAILED_INVOICES: 1}
    for name in (FAILED_INVOICES, "parking-lot", "unroutable"):
        assert broker.shard.state.queues.named(name).settings.max_length == MAX_DEAD_LETTERS


def test_a_misspelt_order_reaches_only_the_alternate_exchange():
    broker = staged()

    send(broker, order(19))

    assert depths(broker, PAYMENTS, "dashboard", "unroutable") == {
        PAYMENTS: 0,
        "dashboard": 0,
        "unroutable": 1,
    }


def test_a_paid_order_goes_to_shipping():
    broker = staged()

    send(broker, paid(order(3).body))

    assert depths(broker, PAYMENTS, SHIPPING) == {PAYMENTS: 0, SHIPPING: 1}


def test_an_order_after_too_many_rejections_is_parked():
    broker = staged()

    send(broker, parked(order(17).body))

    assert broker.drain("parking-lot") == [order(17).body.decode()]


def test_expired_quotes_are_parked_urgent_ones_first():
    broker = staged(clock="event")
    send(broker, order(6))
    send(broker, order(2))

    at_first = broker.at(SHORT_QUOTE_TTL_MS).depth("parking-lot")
    in_the_end = broker.at(QUOTES_TTL_MS).depth("parking-lot")

    assert (at_first, in_the_end, broker.depth(QUOTES)) == (0, 2, 0)


def test_the_dashboard_drops_its_oldest_message_to_the_overflow_queue():
    broker = staged()

    for number in (0, 3, 4, 5) * DASHBOARD_LENGTH:
        send(broker, order(number))

    assert depths(broker, "dashboard", "overflow") == {
        "dashboard": DASHBOARD_LENGTH,
        "overflow": 3 * DASHBOARD_LENGTH,
    }
    assert broker.drain("overflow")[0] == order(0).body.decode()


def test_a_rejected_payment_returns_after_the_retry_time():
    broker = staged(clock="event")
    send(broker, order(17))
    broker.get(PAYMENTS, "g")

    broker.reject("g/0")
    waiting = depths(broker, PAYMENTS, "payments.retry")
    broker.at(RETRY_TTL_MS)

    assert waiting == {PAYMENTS: 0, "payments.retry": 1}
    assert depths(broker, PAYMENTS, "payments.retry") == {PAYMENTS: 1, "payments.retry": 0}


def test_a_parcel_requeued_too_often_is_parked():
    broker = staged()
    send(broker, paid(order(9).body))

    for turn in range(DELIVERY_LIMIT + 1):
        broker.get(SHIPPING, f"g{turn}")
        broker.reject(f"g{turn}/0", requeue=True)

    assert broker.drain("parking-lot") == [order(9).body.decode()]


def test_payments_accepts_most_cards_and_parks_an_order_after_too_many_rejections():
    rejected = {"x-death": [{"queue": PAYMENTS, "reason": "rejected", "count": MAX_REJECTIONS}]}
    once = {"x-death": [{"queue": PAYMENTS, "reason": "rejected", "count": 1}]}

    assert payment(order(3).body, {}) == "ack"
    assert payment(order(9).body, {}) == "reject"
    assert payment(order(9).body, once) == "ack"
    assert payment(order(17).body, once) == "reject"
    assert payment(order(17).body, rejected) == "park"


def test_one_parcel_in_nine_does_not_fit():
    decisions = [shipment(order(number).body) for number in range(18)]

    assert [number for number in range(18) if decisions[number] == "requeue"] == [0, 9]


def test_rejections_count_one_queue_and_one_reason():
    headers = {
        "x-death": [
            {"queue": PAYMENTS, "reason": "rejected", "count": 2},
            {"queue": PAYMENTS, "reason": "expired", "count": 5},
            {"queue": SHIPPING, "reason": "rejected", "count": 7},
            "somebody wrote this",
        ]
    }

    assert rejections(headers, PAYMENTS) == 2
    assert rejections({"x-death": "forged"}, PAYMENTS) == 0
    assert rejections({}, PAYMENTS) == 0


def test_a_body_from_another_publisher_is_processed():
    for body in (b"", b"\xff", b"[]", b'{"order": "many"}'):
        assert payment(body, {}) == "ack"
        assert shipment(body) == "requeue"
        assert paid(body).routing_key == "order.eu.paid"
