"""A small shop with tables for the tests of queries and commands.

batch 0   order 0: rejected by billing      -> dead letters, read from there
          order 1: acked by billing
          order 2: too old for mail         -> dead letters, still there
batch 1   order 3: no queue wants it; order 4: to an exchange that is not there
          order 5: delivered to billing, not settled; order 6: ready there
          order 7: in a box that is then full for order 8
"""

from typing import Any

from streaming.broker import commands
from tests.builders import Broker
from tests.unit.queries.recording import Recording


def a_shop(root: Any, **options: Any) -> Recording:
    """The shop's two batches, committed."""
    shop = Broker()
    recording = Recording(root, shop, **options)
    shop.exchange("orders", "topic")
    shop.exchange("dlx", "fanout")
    shop.queue("billing", dead_letter_exchange="dlx")
    shop.queue("mail", dead_letter_exchange="dlx", message_ttl=500)
    shop.queue("dead")
    shop.queue("box", max_length=1, overflow="reject-publish")
    shop.bind("orders", "billing", "bill.#")
    shop.bind("orders", "mail", "mail.#")
    shop.bind("dlx", "dead")
    headers = {"tenant": "acme", "n": 1}
    shop.publish("orders", "bill.eu", "order 0", headers=headers, message_id="first")
    shop.publish("orders", "bill.us", "order 1", channel="web")
    shop.publish("orders", "mail.eu", "order 2 \x07é\nline", size=16, message_id="same")
    shop.get("billing", "g", 2, channel="clerk", user="anna")
    shop.do(commands.Reject(refs=("g/0",), channel="clerk"), user="anna")
    shop.do(commands.Ack(refs=("g/1",), channel="clerk"), user="anna")
    shop.at(1000)
    shop.get("dead", "d", 1, auto_ack=True, channel="reader")
    recording.commit()
    shop.publish("orders", "cash.eu", "order 3")
    shop.publish("missing", "bill.eu", "order 4")
    shop.publish("orders", "bill.eu", "order 5", message_id="same")
    shop.get("billing", "h", 1, channel="clerk", user="anna")
    shop.publish("orders", "bill.eu", "order 6", priority=3)
    shop.publish("", "box", "order 7")
    shop.publish("", "box", "order 8")
    shop.at(2000)
    recording.commit()
    return recording
