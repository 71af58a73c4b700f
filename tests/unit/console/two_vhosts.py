"""Tables of two vhosts, for users who may see one of them and read some of its queues."""

from typing import Any

from streaming.broker import commands
from streaming.contents.snapshot_writer import SnapshotWriter
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.recording import Recording, apart

TREASURE = "treasure-4711"
"""What the users may not read."""

USERS = ("anna", "olga", "edda")


def write_two_vhosts(root: Any) -> str:
    """Write tables of the vhost `/` with an open and a closed queue, and of another vhost.

    USERS could read everything at batch 0. Returns the folder.
    """
    mine, other = Broker(), apart(Broker(vhost="vault-v"), 500)
    recording = Recording(root, mine, other)
    for broker, names in ((mine, ("open", "closed")), (other, ("vault-q",))):
        broker.exchange(f"{names[-1]}-x", "fanout")
        for name in names:
            broker.queue(name, dead_letter_exchange="", dead_letter_routing_key=f"{name}-dead")
            broker.queue(f"{name}-dead")
    for user in USERS:
        mine.do(commands.SetPermissions(user=user, configure=".*", write=".*", read=".*"))
        other.do(commands.SetPermissions(user=user, configure=".*", write=".*", read=".*"))
    other.do(commands.SetPermissions(user="vault-u", configure=".*", write=".*", read=".*"))
    other.policy("vault-p", "^vault", {"max-length": 10})
    mine.publish("", "open", "order 0", message_id="mine")
    mine.publish("", "closed", TREASURE, message_id="closed-m")
    other.publish("", "vault-q", TREASURE, headers={"vault-h": TREASURE}, message_id="vault-m")
    for broker, name in ((mine, "open"), (mine, "closed"), (other, "vault-q")):
        broker.get(name, name, 1, channel=f"{name}-c", user="vault-u")
        broker.do(commands.Reject(refs=(f"{name}/0",), channel=f"{name}-c"), user="vault-u")
    recording.commit()
    for user in USERS:
        mine.do(commands.SetPermissions(user=user, configure="^$", write="", read="^open"))
        other.do(commands.ClearPermissions(user=user))
    recording.commit()
    SnapshotWriter(recording.place).write()
    mine.publish("", "open", "order 1")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root
