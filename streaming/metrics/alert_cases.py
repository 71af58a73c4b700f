"""The causes of alerts that `dlx config alerts test` plays.

Each case changes some series of a healthy hour and names the alerts that must fire; promtool then
checks that they fire and that no other does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

WHERE: Final = {"job": "orders", "instance": "host:9419"}
"""Where Prometheus found a series, unless a case says something else."""
_LEADS, _STANDS_BY = (
    f'dlx_front_leads{{job="front",instance="{front}:15692",vhost="/"}}' for front in "ab"
)
_A_IS_UP, _B_IS_UP = (f'up{{job="front",instance="{front}:15692"}}' for front in "ab")
_OLDEST: Final = 'dlx_front_log_oldest_seconds{job="front",instance="a:15692",vhost="/"}'
_BEHIND: Final = 'dlx_front_blocked{job="front",instance="a:15692",reason="the job is behind"}'
HEALTHY: Final = {
    "up{}": "1x90",
    _A_IS_UP: "1x90",
    _B_IS_UP: "1x90",
    _LEADS: "1x90",
    _STANDS_BY: "0x90",
    _OLDEST: "0 0.02 " * 45,
    _BEHIND: "0 1 " * 45,
    "dlx_start_timestamp_seconds{}": "0x90",
    "dlx_totals_complete{}": "1x90",
    "dlx_last_batch_timestamp_seconds{}": "0+60x90",
    'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "3 0 5 2 " * 22 + "1 0 4",
    "dlx_gate_open{}": "1x90",
    "dlx_held_messages{}": "0x90",
    "dlx_kafka_reachable{}": "1x90",
    "rabbitmq_disk_space_available_bytes{}": "50000000000x90",
    'dlx_console_info{url="https://dlx.example.com"}': "1x90",
    "dlx_unexplained{}": "0x90",
    'dlx_metrics_series_left_out{family="dlx_dead_letters_total"}': "0x90",
    'dlx_publish_faults_total{kind="quarantined"}': "7x90",
    'dlx_unhandled_dead_letters_oldest_timestamp_seconds{vhost="/",queue="dead"}': "0+60x90",
    'dlx_produce_to_visible_seconds_bucket{le="1.0"}': "0+60x90",
    'dlx_produce_to_visible_seconds_bucket{le="30.0"}': "0+60x90",
    'dlx_produce_to_visible_seconds_bucket{le="+Inf"}': "0+60x90",
    # The steps of a retry: deaths that are meant.
    'dlx_dead_letters_total{vhost="/",queue="retry",reason="expired",outcome="dead_lettered"}': (
        "100+30x90"
    ),
    # A queue whose consumers keep up with thousands that come and go.
    'dlx_backlog_messages{vhost="/",queue="busy"}': "1200 3400 _ 2100 5000 1100 _x3 1900 " * 9,
    'dlx_queue_fill_ratio{vhost="/",queue="busy"}': "0.6 0.7 _ 0.8 0.55 " * 18,
}
"""Series of an hour and a half in which nothing is wrong, one value a minute."""


@dataclass(frozen=True)
class Case:
    """A cause, and the alerts that it must fire.

    Attributes:
        series: replaces or adds to HEALTHY.
        fires: alert -> its labels besides those of WHERE and the severity; an empty one takes one
            of WHERE away.
        ended: alerts that fired before, and do not any more.
        minute: when the alerts are looked at.
    """

    cause: str
    series: Mapping[str, str]
    fires: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    minute: int = 60


def _deaths(queue: str, reason: str, outcome: str = "dead_lettered") -> str:
    return (
        f'dlx_dead_letters_total{{vhost="/",queue="{queue}",reason="{reason}",outcome="{outcome}"}}'
    )


def _labels(queue: str, **more: str) -> dict[str, str]:
    return {"vhost": "/", "queue": queue, **more}


REJECTED: Final = _labels("work", reason="rejected")
_BOTH_ARE_GONE: Final = {
    _A_IS_UP: "1x40 0x50",
    _B_IS_UP: "1x40 0x50",
    _LEADS: "1x40 stale _x49",
    _STANDS_BY: "0x40 stale _x49",
}
_A_ITSELF: Final = {"job": "front", "instance": "a:15692"}
_A: Final = {**_A_ITSELF, "vhost": "/"}
NO_FRONT: Final = {"job": "front", "instance": "", "vhost": "/"}
CASES: Final = (
    Case("nothing", {}),
    Case("Prometheus begins to scrape a job whose retries die all the time", {}, minute=10),
    Case(
        "a consumer rejects a message in a queue that knows rejects",
        {_deaths("work", "rejected"): "4x57 5x33"},
        {"DlxMessagesDie": REJECTED},
    ),
    Case(
        "a queue has its first reject",
        {_deaths("work", "rejected"): "_x57 1x33"},
        {"DlxMessagesDie": REJECTED, "DlxNewCause": REJECTED},
    ),
    Case(
        "a burst of messages exceeds a length limit",
        {_deaths("work", "maxlen"): "0+1x56 100 140 180 220 260 260x30"},
        {"DlxDeathBurst": _labels("work", reason="maxlen")},
    ),
    Case(
        "a dead-letter exchange loses its binding",
        {_deaths("work", "expired", "no_route"): "0x57 3x33"},
        {"DlxDeadLettersLost": _labels("work", outcome="no_route")},
    ),
    Case(
        "rejected messages have no dead-letter exchange",
        {_deaths("work", "rejected", "no_exchange"): "2x57 3x33"},
        {
            "DlxDeadLettersLost": _labels("work", outcome="no_exchange"),
            "DlxMessagesDie": REJECTED,
        },
    ),
    Case(
        "expired messages have no dead-letter exchange, as in a cache",
        {_deaths("cache", "expired", "no_exchange"): "10+5x90"},
    ),
    Case(
        "a bounded queue drops its oldest messages and has no dead-letter exchange",
        {_deaths("bounded", "maxlen", "no_exchange"): "10+20x90"},
    ),
    Case(
        "rejects and waiting letters are part of the design of quiet queues",
        {
            'dlx_quiet_queue{vhost="/",queue="work"}': "1x90",
            'dlx_quiet_queue{vhost="/",queue="dead"}': "1x90",
            _deaths("work", "rejected"): "_x20 4x37 5+60x33",
            _deaths("work", "rejected", "no_exchange"): "4x57 5x33",
            'dlx_unhandled_dead_letters_oldest_timestamp_seconds{vhost="/",queue="dead"}': (
                "-14400x90"
            ),
        },
    ),
    Case(
        "a consumer rejects a message in a queue that has no series of its own",
        {_deaths("", "rejected").replace('vhost="/"', 'vhost=""'): "4x57 5x33"},
        {"DlxMessagesDie": {"reason": "rejected"}},
    ),
    Case(
        "a dead letter waits for hours",
        {
            'dlx_unhandled_dead_letters_oldest_timestamp_seconds{vhost="/",queue="dead"}': (
                "-14400x90"
            )
        },
        {"DlxDeadLettersUnhandled": _labels("dead")},
    ),
    Case(
        "a dead letter outlives most of its retention",
        {
            'dlx_retention_seconds{kept="dead_letters"}': "3600x90",
            'dlx_unhandled_dead_letters_oldest_timestamp_seconds{vhost="/",queue="dead"}': "600x90",
        },
        {"DlxNearRetention": _labels("dead")},
    ),
    Case(
        "a message that was sent back dies again",
        {
            'dlx_redrive_letters{vhost="/",outcome="died"}': "_x50 0x5 2x35",
            'dlx_redrive_letters{vhost="/",outcome="acked"}': "_x50 0x5 8x35",
        },
        {"DlxRedriveDiesAgain": {"vhost": "/"}},
    ),
    Case(
        "messages that were sent back are acknowledged",
        {
            'dlx_redrive_letters{vhost="/",outcome="died"}': "3x90",
            'dlx_redrive_letters{vhost="/",outcome="acked"}': "8x50 9x40",
        },
    ),
    Case(
        "a target refuses held messages",
        {"dlx_held_messages{}": "0x40 2x50"},
        {"DlxMessagesHeld": {}},
    ),
    Case(
        "the consumers of a queue are gone",
        {'dlx_unconsumed_messages{vhost="/",queue="work"}': "_x57 20+20x33"},
        {"DlxNoConsumer": _labels("work")},
    ),
    Case(
        "a consumer restarts within half a minute",
        {'dlx_unconsumed_messages{vhost="/",queue="work"}': "_x63 20 stale _x25"},
        minute=64,
    ),
    Case(
        "a queue is consumed once a night, and is left out of that alert alone",
        {
            'dlx_unconsumed_messages{vhost="/",queue="nightly"}': "_x20 20+20x70",
            'dlx_quiet_queue{vhost="/",queue="nightly",alert="DlxNoConsumer"}': "1x90",
            'dlx_queue_fill_ratio{vhost="/",queue="nightly"}': "_x57 0.95x33",
        },
        {"DlxNearMaxLength": _labels("nightly")},
    ),
    Case(
        "4,000 messages a second come into a queue, and 200 go out",
        {'dlx_backlog_messages{vhost="/",queue="work"}': "_x57 228000+228000x33"},
        {"DlxBacklogGrowing": _labels("work")},
        minute=58,
    ),
    Case(
        "a queue grows slowly for a quarter of an hour",
        {'dlx_backlog_messages{vhost="/",queue="work"}': "1500x40 1520+20x50"},
        {"DlxBacklogGrowing": _labels("work")},
    ),
    Case(
        "a queue stays as long as it has been all day",
        {
            'dlx_backlog_messages{vhost="/",queue="work"}': (
                "40000 41000 39500 40200 " * 22 + "40000 40100"
            )
        },
    ),
    Case(
        "a queue is nearly full",
        {'dlx_queue_fill_ratio{vhost="/",queue="work"}': "0.6x56 0.95x34"},
        {"DlxNearMaxLength": _labels("work")},
    ),
    Case(
        "queues that are left out have no consumer, grow and are full",
        {
            'dlx_quiet_queue{vhost="/",queue="work"}': "1x90",
            'dlx_unconsumed_messages{vhost="/",queue="work"}': "_x20 20+20x70",
            'dlx_backlog_messages{vhost="/",queue="work"}': "_x20 228000+228000x70",
            'dlx_queue_fill_ratio{vhost="/",queue="work"}': "_x20 1x70",
        },
    ),
    Case(
        "the fold of the job and that of the front part, and the job is started again",
        {'dlx_failure{code="folds-differ"}': "_x57 1 1 _x31"},
        {"DlxDigestDiffers": {"code": "folds-differ"}},
        minute=59,
    ),
    Case(
        "a job starts again after another failure",
        {'dlx_failure{code="kafka-unreachable"}': "_x57 1x33"},
    ),
    Case(
        "Kafka does not answer",
        {"dlx_kafka_reachable{}": "1x57 0x33"},
        {"DlxKafkaUnreachable": {}},
        minute=59,
    ),
    Case(
        "Kafka misses one question",
        {"dlx_kafka_reachable{}": "1x62 0 1x27"},
        minute=64,
    ),
    Case(
        "the disk has little space",
        {"rabbitmq_disk_space_available_bytes{}": "3000000000x57 1900000000x33"},
        {"DlxDiskFillsUp": {}},
        minute=59,
    ),
    Case(
        "the disk fills up",
        {"rabbitmq_disk_space_available_bytes{}": "50000000000-300000000x90"},
        {"DlxDiskFillsUp": {}},
    ),
    Case(
        "files of the disk come and go",
        {
            "rabbitmq_disk_space_available_bytes{}": (
                "50000000000 47000000000 44000000000 50000000000 " * 22 + "50000000000 1"
            ).removesuffix(" 1")
        },
    ),
    Case("a row of the ledger is gone", {"dlx_unexplained{}": "0x40 1x50"}, {"DlxUnexplained": {}}),
    Case(
        "a record is malformed",
        {'dlx_publish_faults_total{kind="quarantined"}': "7x55 8x35"},
        {"DlxQuarantine": {"kind": "quarantined"}},
    ),
    Case(
        "memory is full",
        {
            "dlx_gate_open{}": "1x40 0x50",
            'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "0x40 0+500x50",
        },
        {"DlxPublishesThrottled": {}},
    ),
    Case(
        "the job is killed",
        {"up{}": "1x40 0x50", "dlx_start_timestamp_seconds{}": "0x40"},
        {"DlxJobDown": {}},
    ),
    Case(
        "the job has been down for half a day",
        {"up{}": "1x40 0x720", "dlx_start_timestamp_seconds{}": "0x40"},
        {"DlxJobDown": {}},
        minute=720,
    ),
    Case(
        "a job runs again",
        {"up{}": "1x40 0x10 1x40", "dlx_start_timestamp_seconds{}": "0x40 _x10 3000x40"},
        ended={"DlxJobDown": {}},
    ),
    Case(
        "something else that Prometheus scrapes is down",
        {'up{job="node"}': "0x90"},
    ),
    Case(
        "a job that is scraped as in the example has never answered",
        {'up{job="dlx"}': "0x90"},
        {"DlxJobDown": {"job": "dlx"}},
    ),
    Case(
        "a response has too many series",
        {'dlx_metrics_series_left_out{family="dlx_dead_letters_total"}': "0x40 12x50"},
        {"DlxMetricsLeftOut": {}},
    ),
    Case(
        "the stream is stuck",
        {
            "dlx_last_batch_timestamp_seconds{}": "0+60x40 2400x50",
            'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "0x40 10x50",
        },
        {"DlxJobStale": {}},
    ),
    Case(
        "an idle job has nothing to do",
        {
            "dlx_last_batch_timestamp_seconds{}": "0+60x40 2400x50",
            'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "0x90",
        },
    ),
    Case(
        "more arrives than the job can do",
        {'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "0x30 0+2000x60"},
        {"DlxLagGrowing": {"topic": "dlx.publishes"}},
    ),
    Case(
        "a backlog of records is worked off after a pause",
        {
            'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': (
                "0x50 200000-15000x13 0x27"
            )
        },
    ),
    Case(
        "far more arrives than the job can do",
        {'dlx_consumer_lag_records{topic="dlx.publishes",partition="0"}': "0x56 60000+600000x33"},
        {"DlxLagGrowing": {"topic": "dlx.publishes"}},
        minute=59,
    ),
    Case(
        "batches become slow",
        {
            'dlx_produce_to_visible_seconds_bucket{le="1.0"}': "0+60x40 2400x50",
            'dlx_produce_to_visible_seconds_bucket{le="30.0"}': "0+60x90",
        },
        {"DlxSlow": {}},
    ),
    Case(
        "the front is gone, and its standby takes over within a minute",
        {_A_IS_UP: "1x57 0x33", _LEADS: "1x57 stale _x32", _STANDS_BY: "0x58 1x32"},
        minute=58,
    ),
    Case(
        "the front is gone, and its standby does not take over",
        {_A_IS_UP: "1x57 0x33", _LEADS: "1x57 stale _x32"},
        {"DlxNoFront": NO_FRONT},
    ),
    Case(
        "all fronts stand by",
        {_LEADS: "1x57 0x33"},
        {"DlxNoFront": NO_FRONT},
    ),
    Case(
        "both fronts are gone, and another job has one for a vhost of that name",
        {
            **_BOTH_ARE_GONE,
            'up{job="other",instance="c:15692"}': "1x90",
            'dlx_front_leads{job="other",instance="c:15692",vhost="/"}': "1x90",
        },
        {"DlxNoFront": NO_FRONT},
    ),
    Case(
        "both fronts have been gone for half a day",
        {name: values.replace("x50", "x720") for name, values in _BOTH_ARE_GONE.items()},
        {"DlxNoFront": NO_FRONT},
        minute=720,
    ),
    Case(
        "fronts that are gone are not scraped any more",
        {**_BOTH_ARE_GONE, _A_IS_UP: "1x40 0x10 stale _x39", _B_IS_UP: "1x40 0x10 stale _x39"},
    ),
    Case(
        "one of two fronts with a vhost each is gone",
        {
            _A_IS_UP: "1x57 0x33",
            _LEADS: "1x57 stale _x32",
            _STANDS_BY: "_",
            'dlx_front_leads{job="front",instance="b:15692",vhost="other"}': "1x90",
        },
        {"DlxNoFront": NO_FRONT},
    ),
    Case(
        "a vhost is deleted, and later the standby is gone",
        {
            'dlx_front_leads{job="front",instance="a:15692",vhost="old"}': "1x40 stale _x49",
            'dlx_front_leads{job="front",instance="b:15692",vhost="old"}': "0x40 stale _x49",
            _B_IS_UP: "1x50 0x40",
            _STANDS_BY: "0x50 stale _x39",
        },
    ),
    Case(
        "fronts run again",
        {
            _A_IS_UP: "1x40 0x10 1x40",
            _B_IS_UP: "1x40 0x10 1x40",
            _LEADS: "1x40 stale _x9 0x40",
            _STANDS_BY: "0x40 stale _x9 1x40",
        },
    ),
    Case(
        "Kafka does not acknowledge what a front sends",
        {_OLDEST: "0.02x58 20 80+60x30"},
        {"DlxFrontStuck": _A},
    ),
    Case("Kafka takes 20 seconds to acknowledge what a front sends", {_OLDEST: "0.02x58 20x32"}),
    Case(
        "publishers of a front wait for minutes, for one reason after another",
        {
            _BEHIND: "0x50 1x4 0x36",
            _BEHIND.replace("the job is behind", "Kafka is slow"): "0x55 1x35",
        },
        {"DlxPublishersBlocked": _A_ITSELF},
    ),
    Case("publishers of a front wait for four minutes", {_BEHIND: "0x55 1x35"}, minute=60),
)
"""Every alert fires in at least one case."""
