"""What every part of a shard needs; it has no behaviour of its own."""

from streaming.broker.clock import Clock
from streaming.broker.config import ShardConfig
from streaming.broker.events import CLOCK, Actor, Events
from streaming.broker.lanes import RecordId
from streaming.broker.message import PublishedPort
from streaming.broker.outbound import Outbound
from streaming.broker.reject_reasons import Causes
from streaming.broker.state.store import StateStore
from streaming.broker.state.vhost_codec import AlternateWarnings
from topology.vhost import Vhost


class ShardContext:
    """The configuration, the state and the output of one shard during one batch.

    Attributes:
        vhost: what is declared; its `version` grows with every change.
        published: reads the published headers of a message, for headers exchanges.
        outbound: what clients are told, in order.
        timed_out: the names of channels that were closed for a delivery that nobody settled, each
            with its consumer timeout in milliseconds.
        actor: who causes what happens now.
        place: the record of the current command, in a vhost of several lanes.
        new_versions: hashes of the versions of letters that this batch has received.
        causes: puts the causes that consumers give on their copies.
    """

    __slots__ = (
        "actor",
        "alternate_warnings",
        "causes",
        "clock",
        "config",
        "events",
        "new_versions",
        "outbound",
        "place",
        "published",
        "store",
        "timed_out",
        "vhost",
    )

    def __init__(
        self,
        config: ShardConfig,
        store: StateStore,
        events: Events,
        clock: Clock,
        vhost: Vhost,
        alternate_warnings: AlternateWarnings,
        published: PublishedPort,
    ) -> None:
        self.config = config
        self.store = store
        self.events = events
        self.clock = clock
        self.vhost = vhost
        self.alternate_warnings = alternate_warnings
        self.published = published
        self.outbound: list[Outbound] = []
        self.timed_out: list[tuple[str, int]] = []
        self.actor: Actor = CLOCK
        self.place: RecordId | None = None
        self.new_versions: set[str] = set()
        self.causes = Causes()
