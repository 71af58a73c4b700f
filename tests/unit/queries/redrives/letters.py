"""Tables with letters that a redrive can move: planned, approved and asked about."""

from typing import Any

import msgspec

from streaming.protocol.command_json import parse_command
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.duckdb_tables import Tables
from streaming.queries.redrives.plan import RedriveWish, count_letters, plan_redrive
from streaming.queries.vhosts.declared import declared
from tests.builders import Broker
from tests.unit.queries.recording import Recording

ALL = DeadLetterFilter()


class Shop:
    """A broker with tables: letters `m0`, `m1`, ... died in `work` and are in `dead`."""

    def __init__(self, root, letters=4, **work):
        self.broker = Broker()
        self.recording = Recording(root, self.broker)
        dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
        self.broker.queue("work", **dead, **work)
        self.broker.queue("dead")
        for number in range(letters):
            headers = {"tenant": f"t{number % 2}"}
            self.broker.publish("", "work", f"m{number}", headers=headers)
        self.kill("work", letters)

    def kill(self, queue, count):
        given = self.broker.get(queue, "kill", count=count, channel="killer")
        self.broker.reject(*(one.ref for one in given), channel="killer")

    def ask(self, question, *args, **kwargs):
        self.recording.commit()
        tables = Tables(self.recording.root)
        try:
            return question(tables, *args, **kwargs)
        finally:
            tables.close()

    def plan(self, wanted=ALL, **options):
        """A plan; counting its letters without making it gives as many."""
        wish = RedriveWish(wanted=wanted, **options)

        def planned(tables):
            plan = plan_redrive(tables, wish)
            assert count_letters(tables, wish, declared(tables)) == len(plan.sealed.letters)
            return plan

        return self.ask(planned)

    def approve(self, plan, **options):
        chosen = msgspec.structs.replace(plan.sealed.options, **options)
        answer: Any = {}
        for command in plan.sealed.commands("fixed", chosen):
            answer = self.broker.answer(parse_command({"op": "redrive", **command}))
        return answer


def retried(root, letters=2):
    """A shop whose letters died in `work`, then in `retry`, and are in `parking`."""
    shop = Shop(root, letters=0)
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "retry"}
    shop.broker.queue("orders", **dead)
    dead["dead_letter_routing_key"] = "parking"
    shop.broker.queue("retry", message_ttl=10, **dead)
    shop.broker.queue("parking")
    for number in range(letters):
        shop.broker.publish("", "orders", f"m{number}", headers={"tenant": f"t{number % 2}"})
    shop.kill("orders", letters)
    shop.broker.at(1000)
    return shop
