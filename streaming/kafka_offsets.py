"""The first and the next offset of partitions, asked again until brokers agree on their leaders."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

Partition = tuple[str, int]
"""A topic and the number of a partition."""

ELECTION_S = 30.0
"""Kafka may take this long to choose other leaders after one of its brokers was lost."""

_T = TypeVar("_T")
_PAUSE_S = 0.05
_GRACE_S = 10.0
"""The client itself gives up in time; it may take so long to say so on a busy machine."""

_NO_LEADER_YET = (
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
    "OFFSET_NOT_AVAILABLE",  # a new leader does not know yet up to where all replicas are
    "_NOENT",  # the client's own: no partition that was asked about has a leader
    "_UNKNOWN_PARTITION",  # the same, of a topic that was made just now
)
"""What brokers answer about partitions for a while after their topic was created, or they began."""


def next_offsets(
    admin: Any, partitions: Iterable[Partition], timeout_s: float, patience_s: float | None = None
) -> dict[Partition, int | KafkaException]:
    """Ask for the offset that the next record of each partition will have.

    Args:
        admin: an AdminClient.
        timeout_s: how long to wait for one answer.
        patience_s: how long to ask again while partitions have no leader; by default the same.

    Returns:
        (topic, partition) -> its offset, or why a broker does not say.

    Raises:
        KafkaException: no broker answers.
    """
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # noqa: PLC0415

    return _ask(admin, partitions, OffsetSpec.latest(), timeout_s, patience_s)  # type: ignore[no-untyped-call] # has no types


def first_offsets(
    admin: Any, partitions: Iterable[Partition], timeout_s: float, patience_s: float | None = None
) -> dict[Partition, int | KafkaException]:
    """Ask for the offset of the oldest record of each partition; see `next_offsets`."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # noqa: PLC0415

    return _ask(admin, partitions, OffsetSpec.earliest(), timeout_s, patience_s)  # type: ignore[no-untyped-call] # has no types


def quiet_admin(properties: Mapping[str, str]) -> Any:
    """Make an AdminClient that logs nothing; keep it until its answers have come.

    Args:
        properties: of librdkafka.
    """
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - as slow as OffsetSpec

    settings: dict[str, Any] = {**properties, "log_level": 0, "error_cb": lambda _error: None}
    return AdminClient(settings)


def ends_of(admin: Any, partitions: Iterable[Partition], timeout_s: float) -> dict[Partition, int]:
    """Ask for the offset that the next record of each partition will have.

    Raises:
        KafkaException: Kafka does not say all of them.
    """
    return all_known(next_offsets(admin, partitions, timeout_s))


def all_known(found: dict[Partition, int | KafkaException]) -> dict[Partition, int]:
    """The offsets of all partitions.

    Raises:
        KafkaException: a broker does not say one of them.
    """
    offsets = {}
    for partition, offset in found.items():
        if isinstance(offset, KafkaException):
            raise offset
        offsets[partition] = offset
    return offsets


def once_led(ask: Callable[[], _T], patience_s: float) -> _T:
    """Ask about partitions, again as long as brokers have not agreed on their leaders.

    Raises:
        KafkaException: another error, or the time is over.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline_s or not _has_no_leader(error):
                raise
        time.sleep(_PAUSE_S)


def _ask(
    admin: Any,
    partitions: Iterable[Partition],
    spec: Any,
    timeout_s: float,
    patience_s: float | None,
) -> dict[Partition, int | KafkaException]:
    """Ask until every partition has a leader.

    A client sends the epochs of the leaders that it knows along. When another broker leads, or the
    same one began again, all its later questions are refused until it has asked who leads.
    """
    left = dict.fromkeys((TopicPartition(*partition) for partition in partitions), spec)
    found: dict[Partition, int | KafkaException] = {}
    deadline_s = time.monotonic() + (timeout_s if patience_s is None else patience_s)
    while left:
        again = {}
        for partition, answer in admin.list_offsets(left, request_timeout=timeout_s).items():
            key = (partition.topic, partition.partition)
            try:
                found[key] = answer.result(timeout_s + _GRACE_S).offset
            except TimeoutError:
                found[key] = KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the client's own name
            except KafkaException as error:
                found[key] = error
                if _has_no_leader(error):
                    again[partition] = spec
        if time.monotonic() > deadline_s:
            break
        left = again
        if left:
            admin.list_topics(timeout=timeout_s)
            time.sleep(_PAUSE_S)
    return found


def _has_no_leader(error: KafkaException) -> bool:
    return error.args[0].name() in _NO_LEADER_YET
