"""Tables in which nearly everything happened: each way to die, changes, redrives, a purge.

All names begin with `z_`, so that they are told from the words of pages.
"""

from typing import Any, Final

from streaming.broker import commands
from streaming.broker.events import Kind
from streaming.broker.redrive_letters import Letter, RedriveOptions, Target
from streaming.contents.search_index import SearchIndexer
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording
from topology.declarations import Binding

REDRIVE: Final = "r-000000000001"
ADDRESSES: Final = (
    *("/", "/queues", "/queue?queue=z_work&stretch=all", "/queue?queue=z_dead&stretch=all"),
    *("/changes?queue=z_work&from=0&to=1", "/changes?queue=z_dead&from=0&to=1"),
    *("/search", "/causes", "/causes?by=outcome", "/causes?by=queue,cause", "/balance", "/audit"),
    *("/audit?message=0/0/0", "/redrives", f"/redrive?id={REDRIVE}", "/redrive/plan?queue=z_work"),
    *("/topology", "/topology/changes?compared_with=0", "/definitions", "/find?q=z_shop"),
    *(f"/message?id=0/0/{number}" for number in range(8)),
    *("/compare?id=0/0/0&with=0/0/1", "/health", "/exchanges", "/connections"),
)
"""The pages that show what happened."""


def write_eventful(root: Any) -> str:
    """Write the tables; returns their folder."""
    broker = Broker()
    recording = Recording(root, broker)
    broker.exchange("z_orders", "topic")
    broker.exchange("z_old", "fanout")
    to_dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "z_dead"}
    broker.queue("z_work", **to_dead, max_length=4)
    broker.queue("z_slow", **to_dead, message_ttl=10)
    broker.quorum("z_often", **to_dead, delivery_limit=1)
    for name in ("z_lost", "z_dead", "z_gone"):
        broker.queue(name, **({"max_length": 1} if name == "z_lost" else {}))
    broker.bind("z_orders", "z_work", "#")
    broker.bind("z_old", "z_dead")
    recording.commit()
    broker.policy("z_short", "^z_dead$", {"max-length": 100})
    broker.policy("z_short", "^z_dead$", {"max-length": 100}, operator=True)
    for number in range(6):
        given: dict[str, Any] = {"message_id": f"z_m{number}", "headers": {"z_shop": "z_shop"}}
        broker.publish("z_orders", "z_eu", f'{{"z_order": {number}}}', user="z_shop", **given)
    for queue in ("z_slow", "z_often", "z_lost", "z_lost", "z_gone"):
        broker.publish("", queue, "{}", user="z_shop")
    broker.publish("", "z_nowhere", "{}")
    broker.publish("", "z_nowhere", "{}", mandatory=True)
    broker.publish("z_missing", "", "{}")
    broker.get("z_work", "g", 3, channel="z_c1", user="z_anna")
    broker.do(commands.Reject(refs=("g/0",), channel="z_c1"), user="z_anna")
    broker.do(commands.Ack(refs=("g/1",), channel="z_c1"), user="z_anna")
    broker.do(commands.Reject(refs=("g/2",), requeue=True, channel="z_c1"), user="z_anna")
    broker.get("z_work", "h", 1, auto_ack=True, channel="z_c1", user="z_anna")
    for label in ("i", "j", "k"):
        broker.get("z_often", label, 1, channel="z_c1", user="z_anna")
        broker.do(
            commands.Reject(refs=(f"{label}/0",), requeue=True, channel="z_c1"), user="z_anna"
        )
    deployed = commands.Deployed(
        service="z_worker", version="2.0", queues=("z_work",), reason="z_ticket"
    )
    broker.do(deployed, user="z_shop")
    broker.at(1_000)
    recording.commit()
    letters = tuple(
        Letter(0, row.copy.copy_id, "z_dead", Target("z_work", "", ("z_work",)))
        for row in broker.everything()
        if row.kind == Kind.ENQUEUED and row.queue == "z_dead" and row.copy is not None
    )
    sealed: dict[str, Any] = {"reason": "z_ticket", "seal": "s"}
    first, second, *others = letters
    moved = (first, Letter(0, 999_999, "z_dead", first.target))
    broker.do(commands.Redrive(id=REDRIVE, letters=moved, total=2, **sealed), user="z_anna")
    discarded = (Letter(0, second.copy_id, "z_dead"),)
    discard = RedriveOptions(action="discard")
    gone = commands.Redrive(
        id="r-000000000002", letters=discarded, total=1, options=discard, **sealed
    )
    broker.do(gone, user="z_anna")
    slowly = RedriveOptions(rate=1)
    many = tuple(others)
    late = commands.Redrive(
        id="r-000000000003", letters=many, total=len(many), options=slowly, **sealed
    )
    broker.do(late, user="z_anna")
    for action in ("pause", "resume", "cancel"):
        control = commands.ControlRedrive(id="r-000000000003", action=action, reason="z_ticket")
        broker.do(control, user="z_anna")
    broker.do(commands.Purge(queue="z_gone"), user="z_anna")
    broker.do(commands.SetPermissions(user="z_anna", configure="", write="", read=".*"))
    broker.do(commands.ClearPermissions(user="z_anna"))
    broker.do(commands.Unbind(binding=Binding("z_old", "z_dead")))
    broker.do(commands.ClearPolicy(name="z_short"))
    broker.do(commands.ClearOperatorPolicy(name="z_short"))
    broker.do(commands.DeleteExchange(exchange="z_old"))
    broker.do(commands.DeleteQueue(queue="z_gone"))
    broker.at(2_000)
    recording.commit()
    SearchIndexer(recording.place, ("body:$.z_order", "header:z_shop")).update(QUERY_ID)
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root
