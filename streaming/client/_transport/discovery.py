"""Finds the topics of a vhost and user by what running jobs say in their heartbeats.

dlx.out._2f.guest.alive exists --> its last record has the address
it does not                    --> one of the other `.alive` topics has it, if the job's
                                   outbound topics have another name
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.client._transport.sender import kafka_client, reason_of
from streaming.client.address import Address, address_from
from streaming.client.errors import ClientError, KafkaUnreachableError
from streaming.kafka_errors import KafkaErrors
from streaming.protocol.addressing import (
    ALIVE_SUFFIX,
    DEFAULT_OUTBOUND,
    JobAddress,
    alive_topic,
    outbound_topic,
)
from topology.suggestions import did_you_mean

POLL_S = 0.1
SIMULTANEOUS_MS = 5_000
"""Heartbeats that are this close together come from jobs that run at the same time."""


class _Heartbeat(msgspec.Struct):
    """The part of a heartbeat that says where clients write."""

    address: JobAddress


class _Found(NamedTuple):
    """An address, and when the job last repeated it, in epoch milliseconds."""

    time_ms: int
    address: JobAddress


def find_address(
    bootstrap: str, user: str, vhost: str, kafka: Mapping[str, str], timeout_s: float
) -> Address:
    """Return the address of a vhost and user of the job that serves them.

    Without a readable heartbeat, everything has its default name.

    Raises:
        KafkaUnreachableError: Kafka does not answer.
        ClientError: no job, or more than one, serves this vhost and user; or librdkafka does not
            accept the properties.
    """
    for what, name in (("user", user), ("vhost", vhost)):
        if not isinstance(name, str):
            raise ClientError(f"the {what} must be text, not {type(name).__name__}")
    outbound = outbound_topic(DEFAULT_OUTBOUND, vhost, user)
    default = alive_topic(outbound)
    errors = KafkaErrors()
    consumer = _consumer(bootstrap, kafka, errors)
    try:
        topics = consumer.list_topics(timeout=timeout_s).topics
        others = sorted(name for name in topics if name.endswith(ALIVE_SUFFIX))
        found = _read(consumer, [default] if default in topics else others, timeout_s)
        if not _matching(found, user, vhost) and default in topics:
            found = _read(consumer, others, timeout_s)
    except KafkaException as error:
        consumer.poll(0)  # receives librdkafka's error messages
        raise unreachable(bootstrap, timeout_s, errors, error) from error
    finally:
        consumer.close()
    matching = _matching(found, user, vhost)
    if matching:
        return address_from(_newest(matching, user, vhost, bootstrap), bootstrap, kafka)
    if outbound in topics:
        return Address(bootstrap=bootstrap, outbound=outbound, vhost=vhost, kafka=kafka)
    raise ClientError(_nobody(bootstrap, user, vhost, outbound, [each.address for each in found]))


def unreachable(
    bootstrap: str, timeout_s: float, errors: KafkaErrors, error: KafkaException
) -> KafkaUnreachableError:
    """Return the error for a Kafka that does not answer a request."""
    return KafkaUnreachableError(
        f"no answer from Kafka at {bootstrap} within {timeout_s:g} s "
        f"{errors.explain(reason_of(error))}"
    )


def _consumer(bootstrap: str, kafka: Mapping[str, str], errors: KafkaErrors) -> Consumer:
    properties: dict[str, Any] = {
        "reconnect.backoff.max.ms": 1000,
        "fetch.wait.max.ms": 10,
        **kafka,
        "bootstrap.servers": bootstrap,
        "group.id": "dlx-client",  # required, but never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
        "error_cb": errors.note,
    }
    properties.pop("message.max.bytes", None)  # known to producers only
    return kafka_client(Consumer, properties)


def _read(consumer: Consumer, topics: Iterable[str], timeout_s: float) -> list[_Found]:
    """Read the last record of each topic; skip topics that are empty or forbidden."""
    places = []
    for topic in topics:
        place = TopicPartition(topic, 0)
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() < 0:  # Kafka is down
                raise
            continue
        if high > low:
            place.offset = high - 1
            places.append(place)
    consumer.assign(places)
    found: list[_Found] = []
    waiting = {place.topic for place in places}
    deadline_s = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline_s:
        record = consumer.poll(POLL_S)
        if record is None or record.topic() not in waiting:
            continue
        waiting.discard(str(record.topic()))
        if record.error() is None:
            address = _address_in(record.value())
            if address is not None:
                found.append(_Found(record.timestamp()[1], address))
    return found


def _address_in(value: bytes | None) -> JobAddress | None:
    try:
        return msgspec.json.decode(value or b"", type=_Heartbeat).address
    except msgspec.MsgspecError:
        return None  # not a heartbeat


def _matching(found: Iterable[_Found], user: str, vhost: str) -> list[_Found]:
    return [each for each in found if (each.address.user, each.address.vhost) == (user, vhost)]


def _newest(found: list[_Found], user: str, vhost: str, bootstrap: str) -> JobAddress:
    newest = max(found, key=lambda each: each.time_ms)
    running = [each for each in found if each.time_ms > newest.time_ms - SIMULTANEOUS_MS]
    if len(running) > 1:
        topics = ", ".join(sorted(each.address.outbound for each in running))
        raise ClientError(
            f"several jobs at Kafka {bootstrap} serve user {user!r} in vhost {vhost!r}, with the "
            f"outbound topics {topics}: pass an Address or use Connection.from_config"
        )
    return newest.address


def _nobody(bootstrap: str, user: str, vhost: str, outbound: str, others: list[JobAddress]) -> str:
    if not others:
        return (
            f"Kafka at {bootstrap} has no topic {outbound}. The job creates its topics when it "
            "starts (`dlx run`): has it run there, and may this user read its topics?"
        )
    vhosts = sorted({each.vhost for each in others})
    if vhost not in vhosts:
        hint = did_you_mean(vhost, vhosts) or f" (there are {', '.join(map(repr, vhosts))})"
        return f"no job at Kafka {bootstrap} serves the vhost {vhost!r}{hint}"
    users = sorted({each.user for each in others if each.vhost == vhost})
    hint = did_you_mean(user, users) or f" (there are {', '.join(map(repr, users))})"
    return f"no job at Kafka {bootstrap} serves the user {user!r} in vhost {vhost!r}{hint}"
