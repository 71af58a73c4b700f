"""Where a log goes on on other terms than those of this job, which must plan no batch beyond that.

A batch that Spark has planned is run again until it ends. One that has records of both an epoch of
this job's terms and of another could be ended by no version. The heartbeats of fronts say which
epoch is the newest; so this costs the reading of one record, unless it is of other terms.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from streaming.broker.sequence.log_fold import OtherTermsError, Terms
from streaming.config import JobConfig
from streaming.config.shards import shard_config, terms_of
from streaming.protocol.log_records import LogKind, UnknownRecordError, read_epoch, read_header
from streaming.sequencer.leader_heartbeats import Leader, Leaders, LeadersUnreadableError
from streaming.sequencer.log_reader import (
    LogReader,
    LogUnreadableError,
    RawRecord,
    records_between,
)
from streaming.topic_ids import ids_in

_ANSWER_S: Final = 5.0
_UNKNOWN: Final = "whether a log goes on on other terms is unknown"
_POLL_S: Final = 0.02

logger = logging.getLogger(__name__)


def first_other_epochs(
    config: JobConfig,
    properties: Mapping[str, str],
    begins: Mapping[str, Mapping[str, int]],
    ids: Mapping[str, str],
    *,
    listen: Callable[[Mapping[str, str], str], Leaders] = Leaders,
    open_log: Callable[[Mapping[str, str], str], LogReader] = LogReader,
) -> dict[str, OtherTermsError]:
    """Look for epochs of other terms in the logs, as far as fronts say that there are some.

    Args:
        begins: topic -> partition -> the first offset that the job has not planned.
        ids: topic -> Kafka's id of the cluster, `/`, and that of the topic.
        listen, open_log: who hears fronts, and reads a log.

    Returns:
        Log -> what its first such record means.
    """
    found: dict[str, OtherTermsError] = {}
    try:
        leaders = _heard(listen(properties, config.amqp.leaders_topic), config.log_topics(), ids)
    except LeadersUnreadableError as silent:
        logger.warning("%s: %s", _UNKNOWN, silent)
        return found
    for vhost, leader in leaders.items():
        topic = config.log_topics()[vhost]
        begin = begins.get(topic, {}).get("0", 0)
        terms = terms_of(shard_config(config, vhost))
        if leader.beat.epoch < begin:
            continue
        try:
            with closing(open_log(properties, topic)) as reader:
                error = _first(reader, begin, leader.beat.epoch, terms)
        except LogUnreadableError as unreadable:
            logger.warning("%s: %s", _UNKNOWN, unreadable)
            continue
        if error is not None:
            logger.warning("the log %s is read up to offset %s: %s", topic, error.offset, error)
            found[topic] = error
    return found


def _heard(leaders: Leaders, logs: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, Leader]:
    """Who leads each vhost, or has."""
    try:
        deadline_s = time.monotonic() + _ANSWER_S
        while not leaders.is_current and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        heard = {
            vhost: leaders.of(vhost, topic, ids_in(ids[topic])[1]) for vhost, topic in logs.items()
        }
    finally:
        leaders.close()
    return {vhost: leader for vhost, leader in heard.items() if leader is not None}


def _first(reader: LogReader, begin: int, newest: int, terms: Terms) -> OtherTermsError | None:
    """The first epoch of other terms; None if the newest one is of these."""
    [at_newest] = next(records_between(reader, newest, newest + 1))
    if _other_terms(at_newest, terms) is None:
        return None
    for portion in records_between(reader, begin, newest + 1):
        for record in portion:
            other = _other_terms(record, terms)
            if other is not None:
                return OtherTermsError(record.offset, record.offset, terms, other)
    return None


def _other_terms(record: RawRecord, terms: Terms) -> Terms | None:
    """The terms of an epoch record, if they are others."""
    try:
        if read_header(record.header).kind != LogKind.EPOCH:
            return None
        epoch = read_epoch(record.value or b"")
    except UnknownRecordError:
        return None
    there = Terms(epoch.core_version, epoch.rules)
    return None if there == terms else there
