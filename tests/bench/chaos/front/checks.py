"""The word of the clients against the tables.

A message is known by the id that its publisher gave it: no client publishes an id twice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.audit.balance import balance
from streaming.queries.duckdb_tables import Tables
from tests.bench.chaos.front.journal import Entry
from tests.bench.chaos.front.pika_client import DEAD, WORK
from tests.bench.chaos.front.strikes import Sleep

_EXAMPLES: Final = 5

_OF_CLIENTS: Final = f"""
    SELECT m.properties.message_id, e.kind, e.reason, count(*)
    FROM events e JOIN messages m
    ON e.message_id.topic_number = m.topic_number AND e.message_id.partition = m.partition
        AND e.message_id.offset = m.offset
    WHERE e.kind = 'void' OR e.queue = '{WORK}'
    GROUP BY ALL
"""


class Ledger(NamedTuple):
    """What the tables say of the messages that clients published into the queue.

    Attributes:
        messages: id -> rows of `messages`.
        offsets: id -> offset in the log.
        entered, void, acked, rejected, returned: id -> events of this kind.
        left: queue -> copies in it.
    """

    messages: Counter[str]
    offsets: dict[str, int]
    entered: Counter[str]
    void: Counter[str]
    acked: Counter[str]
    rejected: Counter[str]
    returned: Counter[str]
    left: dict[str, int]


def read_ledger(tables: Tables) -> Ledger:
    """Read the tables."""
    for name in ("messages", "events"):
        tables.view(name)
    rows = tables.values(
        'SELECT properties.message_id, count(*), max("offset") FROM messages GROUP BY ALL'
    )
    kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, kind, reason, count in tables.values(_OF_CLIENTS):
        kinds[str(reason) if kind == "died" else str(kind)][str(name)] += int(count)
    left = {WORK: 0, DEAD: 0}
    contents = prepare_contents(tables)  # the table itself is behind on a busy machine
    left |= dict(tables.values(f"SELECT queue, count(*) FROM ({contents}) GROUP BY ALL"))
    return Ledger(
        Counter({str(name): int(count) for name, count, _offset in rows}),
        {str(name): int(offset) for name, _count, offset in rows},
        kinds["enqueued"],
        kinds["void"],
        kinds["acked"],
        kinds["rejected"],
        kinds["requeued"],
        left,
    )


def unbalanced(tables: Tables) -> list[str]:
    """What a balance of the tables cannot explain."""
    return [f"balance: {one}" for one in balance(tables, whole=True).findings]


def contradictions(
    entries: Sequence[Entry], ledger: Ledger, sleeps: Iterable[Sleep], ready: dict[str, int]
) -> list[str]:
    """What clients saw that is not so in the tables, and what no client must see.

    Args:
        ready: queue -> messages at the end, as the front said.
    """
    of: defaultdict[str, list[str]] = defaultdict(list)
    for entry in entries:
        of[entry.kind].append(entry.id)
    settled = Counter([*of["acked"], *of["rejected"]])
    unflagged = Counter(
        entry.id for entry in entries if entry.kind == "delivered" and not entry.redelivered
    )
    endings = ledger.acked + ledger.rejected
    lost = [name for name in of["confirmed"] if not ledger.messages[name]]
    wrong = {
        "was confirmed, and is not in `messages`": lost,
        "was confirmed, and did not enter the queue": [
            name for name in of["confirmed"] if not ledger.entered[name]
        ],
        "was confirmed, and is void": [name for name in of["confirmed"] if ledger.void[name]],
        "was published once, and is in `messages` again": _more_than_once(ledger.messages),
        "was published once, and entered the queue again": _more_than_once(ledger.entered),
        "was never published": ledger.messages.keys() - set(of["published"]),
        "its ack was answered, and is not in `events`": [
            name for name in of["acked"] if not ledger.acked[name]
        ],
        "its rejection was answered, and is not in `events`": [
            name for name in of["rejected"] if not ledger.rejected[name]
        ],
        "its return was answered, and is not in `events`": [
            name for name in of["requeued"] if not ledger.returned[name]
        ],
        "was settled twice, and both were answered": _more_than_once(settled),
        "was settled twice in `events`": _more_than_once(endings),
        "was delivered again without the flag": _more_than_once(unflagged),
        "was confirmed by a leader that was replaced": [
            entry.id for sleep in sleeps for entry in _too_late(sleep, entries, ledger)
        ],
        "was said to a client": [text for text in of["closed"] if not text.startswith("320 ")],
    }
    found = [
        f"{what}: {len(names)}, such as {', '.join(sorted(names)[:_EXAMPLES])}"
        for what, names in wrong.items()
        if names
    ]
    if ready != ledger.left:
        found.append(f"ready at the end: {ready} in the front, {ledger.left} in the tables")
    return found


def waiting_at(sleep: Sleep, entries: Sequence[Entry]) -> int:
    """How many messages were published to a leader while it was asleep."""
    mine = _connections(sleep, entries)
    return sum(
        entry.kind == "published"
        and entry.connection in mine
        and sleep.begin < entry.at < sleep.end
        for entry in entries
    )


def _too_late(sleep: Sleep, entries: Sequence[Entry], ledger: Ledger) -> list[Entry]:
    """Confirms of a leader after its sleep of what is not in the log before it was replaced.

    It may confirm what Kafka has from before: the other front has folded that, too.
    """
    mine = _connections(sleep, entries)
    return [
        entry
        for entry in entries
        if entry.kind == "confirmed"
        and entry.at > sleep.end
        and entry.connection in mine
        and ledger.offsets.get(entry.id, sleep.replaced_at) >= sleep.replaced_at
    ]


def _connections(sleep: Sleep, entries: Sequence[Entry]) -> set[str]:
    """The connections to a leader that were open when it fell asleep."""
    return {
        entry.connection
        for entry in entries
        if entry.kind == "opened" and entry.port == sleep.port and entry.at < sleep.begin
    }


def _more_than_once(counts: Counter[str]) -> list[str]:
    return [name for name, count in counts.items() if count > 1]
