"""What a redrive would do now: a dry run of it, on the broker itself.

    declarations, depths of limited queues  -->  Shard  --Redrive(letters)-->  its events, by letter

Each lane plays its own letters at once: without rate, canary or ceiling, and without consumers.
So the words are the broker's: why it would skip a letter, or of what a message would die at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from streaming.broker.commands import Redrive
from streaming.broker.config import ShardConfig
from streaming.broker.dead_letters.x_death import is_cycle
from streaming.broker.events import Events, Kind
from streaming.broker.message import (
    NEVER,
    NO_COPY,
    NO_FILE,
    Copy,
    Death,
    Envelope,
    Message,
    PublishedHeaders,
)
from streaming.broker.outbound import AnswerOut
from streaming.broker.rebuilt_shard import KnownShard, Positions, rebuild_shard
from streaming.broker.redrive_letters import Letter, RedriveOptions
from streaming.broker.redrives import moves
from streaming.broker.redrives.letters import X_REDRIVE_COUNT, X_REDRIVE_ID, stored_copy
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.protocol.letter_content import LetterContent
from streaming.protocol.sealed_plan import LETTERS_PER_COMMAND
from streaming.queries.as_of.contents import prepare_contents
from streaming.queries.duckdb_tables import QueryError, Row, Tables
from streaming.queries.redrives.candidates import overtaken, stored_letter
from streaming.queries.vhosts.clients import consumer_counts
from topology.sentences import to_say
from topology.values import table_from_json
from topology.vhost import Vhost

EXPIRED: Final = "expired"
MAXLEN: Final = "maxlen"
WAITS: Final = to_say("waits")
CYCLE: Final = to_say("cycle")
NO_CONSUMER: Final = to_say("no consumer")
EXPIRES: Final = to_say("no consumer in time")
OVERTAKEN: Final = to_say("a later one was acked")
AGAIN: Final = to_say("redriven before")
COPY: Final = to_say("a copy that stays")
FORECASTS: Final = (
    *(moves.QUEUE_GONE, moves.TARGET_GONE, moves.NO_ROUTE, moves.TOO_LARGE, moves.CAP),
    *(EXPIRED, WAITS, MAXLEN, CYCLE, NO_CONSUMER, EXPIRES, OVERTAKEN, AGAIN, COPY),
)
"""What may become of a letter; the first five and the last do not move."""

_VERSIONS: Final = (1 << 31) - 1
"""The topic of the new versions of letters, which nobody has published yet."""


class Expected(NamedTuple):
    """What becomes of one letter: the queues that it reaches, and words of FORECASTS."""

    queues: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()


class DryRun:
    """Redrives letters on shards that have what decides about them.

    Args:
        tables: say how full the queues with a limit are.
        name: the vhost.
        vhost: what is declared in it.
        edited: the new contents of letters, by version.
    """

    def __init__(
        self, tables: Tables, name: str, vhost: Vhost, edited: Mapping[str, LetterContent]
    ) -> None:
        self._name = name
        self._definitions = msgspec.structs.replace(
            vhost.definitions(),
            queues=tuple(
                msgspec.structs.replace(one, exclusive=False) if one.exclusive else one
                for one in vhost.queues.values()
            ),
        )
        self._compat = vhost.compat
        self._edited = list(edited.items())
        self._now_ms = int(datetime.now(UTC).timestamp() * 1000)
        self._lanes = _lanes_of(tables, name)
        limited = sorted(
            queue
            for queue, settings in vhost.all_settings().items()
            if settings.max_length is not None or settings.max_length_bytes is not None
        )
        self._depths = _depths(tables, name, limited) if limited else []

    def redrive(self, redrive: Redrive, rows: Sequence[Row]) -> dict[tuple[int, int], Expected]:
        """What becomes of letters, by lane and copy.

        Args:
            redrive: has the letters in their sealed form.
            rows: the same letters, as `candidates` returns them.

        Raises:
            QueryError: the broker would refuse the redrive.
        """
        found: dict[tuple[int, int], Expected] = {}
        pairs = list(zip(redrive.letters, rows, strict=True))
        for lane in sorted({letter.lane for letter in redrive.letters}):
            mine = [(letter, row) for letter, row in pairs if letter.lane == lane]
            fates = _fates(self._play(lane, redrive, mine))
            for letter, _row in mine:
                found[lane, letter.copy_id] = fates.get(
                    letter.copy_id, Expected(words=frozenset({WAITS}))
                )
        return found

    def _play(self, lane: int, redrive: Redrive, mine: Sequence[tuple[Letter, Row]]) -> Events:
        """Open a shard, let it carry out the redrive, and return its events."""
        headers = {_key(row["message_id"].values()): _headers(row) for _letter, row in mine}
        versions = {}
        for number, (version, content) in enumerate(self._edited):
            versions[version] = Message(_VERSIONS, 0, number, NO_FILE, 0, len(content.body))
            headers[_VERSIONS, 0, number] = content.headers

        def published(message: Message) -> PublishedHeaders:
            key = (message.topic_number, message.partition, message.offset)
            return PublishedHeaders(headers.get(key))

        config = ShardConfig(vhost=self._name, lane=lane, lanes=self._lanes, compat=self._compat)
        known = self._known(lane, mine)
        known.versions = versions
        store = MemoryStore()
        store.values.update(rebuild_shard(known, config, only=known.positions))
        shard = Shard(config, store, published=published)
        letters = tuple(letter for letter, _row in mine)
        for first in range(0, len(letters), LETTERS_PER_COMMAND):
            part = letters[first : first + LETTERS_PER_COMMAND]
            command = msgspec.structs.replace(
                redrive, letters=part, first=first, total=len(letters), reply_id="dry"
            )
            shard.command(self._now_ms, command)
            for answer in shard.take_outbound():
                if isinstance(answer, AnswerOut) and answer.refusal is not None:
                    raise QueryError(f"{answer.refusal.code} {answer.refusal.text}")
        done = -1
        while shard.state.redrives.due_ms != NEVER and done < len(shard.events):
            done = len(shard.events)
            shard.advance(shard.state.redrives.due_ms)
        return shard.events

    def _known(self, lane: int, mine: Sequence[tuple[Letter, Row]]) -> KnownShard:
        """A shard with the letters where they are, and queues with a limit as full as they are."""
        vhost = Vhost.from_definitions(self._definitions, self._compat)
        next_seq = 1 + max(letter.copy_id for letter, _row in mine)
        known = KnownShard(self._now_ms, next_seq, 1, vhost)
        ends: Counter[str] = Counter()
        for letter, row in mine:
            if letter.stored is None and letter.queue in vhost.queues:
                copy = stored_copy(letter, stored_letter(row), _headers(row))
                copy.position, copy.deadline_ms = ends[letter.queue], NEVER
                ends[letter.queue] += 1
                known.ready.append((letter.queue, copy))
        envelope = Envelope("", ("",))
        for queue, on_lane, count, size in self._depths:
            if on_lane != lane or queue not in vhost.queues:
                continue
            message = Message(0, 0, 0, NO_FILE, 0, size // count)
            for position in range(ends[queue], count):
                copy = Copy(known.next_seq, message, envelope, position, NEVER, NO_COPY, 0)
                known.ready.append((queue, copy))
                known.next_seq += 1
            ends[queue] = max(ends[queue], count)
        known.positions = {queue: Positions(end) for queue, end in ends.items()}
        return known


def _lanes_of(tables: Tables, vhost: str) -> int:
    tables.view("events", columns=["vhost", "lane", "kind"], view="lane_events")
    [(most,)] = tables.values(
        "SELECT max(lane) FROM lane_events WHERE vhost = ? AND kind = 'topology'", [vhost]
    )
    return (most or 0) + 1


def _depths(tables: Tables, vhost: str, queues: list[str]) -> list[tuple[str, int, int, int]]:
    """How many copies are ready in queues by lane, and the bytes of their bodies."""
    found: list[tuple[str, int, int, int]] = tables.values(
        "SELECT queue, lane, count(*), coalesce(sum(body_bytes), 0)::BIGINT "
        f"FROM ({prepare_contents(tables)}) WHERE state = 'ready' AND vhost = ? AND queue IN ? "
        "GROUP BY ALL ORDER BY ALL",
        [vhost, queues],
    )
    return found


def _fates(events: Events) -> dict[int, Expected]:
    """What became of letters, by copy: where they went, or why they did not move.

    A queue lets go of the oldest messages, or of one that expires at once, right after an arrival.
    """
    reasons = dict(zip(events.death_rows, events.death_outcomes, strict=True))
    queues: dict[int, tuple[str, ...]] = {}
    words: dict[int, set[str]] = {}
    arrived: dict[str, tuple[int, int, int]] = {}  # queue -> the last letter, its copy, the instant
    for row, event in enumerate(events.rows()):
        copy, detail = event.copy, event.detail or {}
        if event.kind == Kind.SKIPPED:
            words.setdefault(detail["copy_id"], set()).add(detail["reason"])
        elif copy is None:
            continue
        elif event.kind in {Kind.REDRIVEN, Kind.REPUBLISHED}:
            queues[copy.copy_id] = tuple(detail["targets"])
        elif event.kind == Kind.ENQUEUED and copy.parent_copy_id in queues:
            arrived[event.queue] = (copy.parent_copy_id, copy.copy_id, event.at_ms)
        elif row in reasons and event.queue in arrived:
            letter, new, at_ms = arrived[event.queue]
            reason = reasons[row].reason
            is_at_once = copy.copy_id == new or reason == MAXLEN
            if is_at_once and event.at_ms == at_ms:
                words.setdefault(letter, set()).add(reason)
    return {
        copy_id: Expected(queues.get(copy_id, ()), frozenset(words.get(copy_id, ())))
        for copy_id in queues.keys() | words.keys()
    }


def _key(values: Any) -> tuple[int, int, int]:
    topic, partition, offset = values
    return topic, partition, offset


def _headers(row: Row) -> dict[str, Any] | None:
    """The headers of a letter without the marks of earlier redrives."""
    if row["headers"] is None:
        return None
    document = msgspec.json.decode(row["headers"])
    if row["redriven"]:
        document = {
            name: value
            for name, value in document.items()
            if name not in (X_REDRIVE_ID, X_REDRIVE_COUNT)
        }
    return table_from_json(document)


class Forecast:
    """Says what would become of letters by the current topology.

    Args:
        key: tells which letters have a later message of the same key; see `RedriveWish`.
    """

    def __init__(
        self, tables: Tables, name: str, vhost: Vhost, key: str, rows: Sequence[Row]
    ) -> None:
        self._vhost = vhost
        self._key = key
        counts = consumer_counts(tables)
        self._consumers = {queue: n for (where, queue), n in counts.items() if where == name}
        self._acked = overtaken(tables, key, rows)

    def words(self, row: Row, expected: Expected, options: RedriveOptions) -> list[str]:
        """What is to be expected of a letter, in the order of FORECASTS."""
        words = {*expected.words, *([AGAIN] if row["redriven"] else [])}
        for queue in expected.queues:
            if options.x_death == "keep" and self._would_cycle(row, queue):
                words.add(CYCLE)
            if not self._consumers.get(queue):
                words.add(EXPIRES if self._expires(queue) else NO_CONSUMER)
        value = self._value(row)
        last = self._acked.get((row["vhost"], row["lane"], row["died_in"], value), -1)
        if expected.queues and value is not None and last > row["death_copy"]:
            words.add(OVERTAKEN)
        return sorted(words, key=FORECASTS.index)

    def _expires(self, queue: str) -> bool:
        """Whether what nobody takes out of a queue dies there."""
        return self._vhost.settings(self._vhost.queues[queue]).message_ttl_ms is not None

    def _would_cycle(self, row: Row, queue: str) -> bool:
        """Whether the cycle rule would drop the letter if it expired there."""
        settings = self._vhost.settings(self._vhost.queues[queue])
        exchange = settings.dead_letter_exchange
        if exchange is None or exchange not in self._vhost.router.exchanges:
            return False
        key = settings.dead_letter_routing_key
        keys = row["routing_keys"] if key is None else [key]
        route = self._vhost.router.route(exchange, tuple(keys or ("",)), {})
        deaths = tuple(Death(*death) for death in stored_letter(row).deaths)
        return bool(route.queues) and all(is_cycle(deaths, name) for name in route.queues)

    def _value(self, row: Row) -> str | None:
        """The key of a letter, as `overtaken` has it."""
        if not self._key.startswith("header:"):
            return row["routing_keys"][0] if row["routing_keys"] else None
        headers = msgspec.json.decode(row["headers"] or "{}")
        found = headers.get(self._key.removeprefix("header:"))
        if found is None or isinstance(found, str):
            return found
        return msgspec.json.encode(found).decode()
