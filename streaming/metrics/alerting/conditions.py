"""The conditions of the shipped alerts, found in the job itself.

Each is what the rule of that name in `shipped/dlx-alerts.yml` says; tests play the causes of all
alerts to both. How long a condition must hold, its severity and its texts are in that file alone.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from streaming.metrics.alerting.history import History, Labels, Samples, added_up, total
from streaming.queries.death_rates import BURST, BURST_LETTERS, OLD_S
from streaming.queries.ends import LOST, LOST_WITHOUT_EXCHANGE

Found = Mapping[Labels, float]
Condition = tuple[tuple[str, ...], Callable[[History], Found]]
"""The names of the labels, and what finds their values."""

MINUTE: Final = 60.0
DEATHS: Final = "dlx_dead_letters_total"
WAITING: Final = "dlx_unhandled_dead_letters_oldest_timestamp_seconds"
LAG: Final = "dlx_consumer_lag_records"
BACKLOG: Final = "dlx_backlog_messages"
DISK: Final = "rabbitmq_disk_space_available_bytes"
VISIBLE: Final = "dlx_produce_to_visible_seconds_bucket"

LONG_BACKLOG: Final = 10_000
GROWTH: Final = 4
"""A backlog grows if it is so many times what it was."""

NEARLY_FULL: Final = 0.9
NEAR_RETENTION: Final = 0.8
LITTLE_SPACE: Final = 2_147_483_648
FULL_WITHIN_S: Final = 4 * 3600.0
SILENT_S: Final = 300.0
LAGS: Final = ((2 * MINUTE, 10_000), (10 * MINUTE, 1_000))
SLOW_S: Final = 10.0
SLOWEST: Final = 0.99
"""The share of publishes that are faster than what counts as slow."""

NOT_FOUND: Final = frozenset(
    {"DlxJobDown", "DlxMetricsLeftOut", "DlxNoFront", "DlxFrontStuck", "DlxPublishersBlocked"}
)
"""Alerts that the job cannot find: it does not run, nobody asks for its metrics, or the metrics are
another process's."""


def _is_complete(history: History, ago_s: float) -> bool:
    return history.at("dlx_totals_complete", ago_s).get(()) == 1


def _gate_is_open(history: History) -> bool:
    return history.now("dlx_gate_open").get(()) == 1


def _by_reason(labels: Labels) -> Labels:
    return labels[:3]


def _by_outcome(labels: Labels) -> Labels:
    return (*labels[:2], labels[3])


def _grown_or_new(
    history: History, key: Callable[[Labels], Labels], wanted: Callable[[Labels], bool]
) -> dict[Labels, float]:
    window_s = 5 * MINUTE
    grown = added_up(history.increase(DEATHS, window_s), key, wanted)
    found = {labels: value for labels, value in grown.items() if value > 0}
    if _is_complete(history, window_s):
        before = added_up(history.at(DEATHS, window_s), key, wanted)
        for labels, value in added_up(history.now(DEATHS), key, wanted).items():
            if value > 0 and labels not in before:
                found.setdefault(labels, value)
    return found


def _messages_die(history: History) -> Found:
    return _grown_or_new(history, _by_reason, lambda labels: labels[2] in LOST_WITHOUT_EXCHANGE)


def _death_burst(history: History) -> Found:
    if not _is_complete(history, 20 * MINUTE):
        return {}
    recent = added_up(history.increase(DEATHS, 5 * MINUTE), _by_reason)
    usual = added_up(history.increase(DEATHS, 30 * MINUTE, 5 * MINUTE), _by_reason)
    return {
        labels: value
        for labels, value in recent.items()
        if value >= BURST_LETTERS and value / 5 > BURST * usual.get(labels, 0.0) / 30
    }


def _lost(history: History) -> Found:
    found = _grown_or_new(history, _by_outcome, lambda labels: labels[3] in LOST)
    grown = added_up(
        history.increase(DEATHS, 5 * MINUTE),
        _by_outcome,
        lambda labels: labels[3] == "no_exchange" and labels[2] in LOST_WITHOUT_EXCHANGE,
    )
    return {**found, **{labels: value for labels, value in grown.items() if value > 0}}


def _new_cause(history: History) -> Found:
    window_s = 30 * MINUTE
    if not _is_complete(history, window_s):
        return {}
    before = added_up(history.at(DEATHS, window_s), _by_reason)
    now = added_up(history.now(DEATHS), _by_reason)
    return {labels: value for labels, value in now.items() if value > 0 and labels not in before}


def _longer_than(history: History, least_s: float) -> Found:
    ages = {queue: history.now_s - since_s for queue, since_s in history.now(WAITING).items()}
    return {queue: age_s for queue, age_s in ages.items() if age_s > least_s}


def _near_retention(history: History) -> Found:
    kept = history.now("dlx_retention_seconds").values()
    return _longer_than(history, NEAR_RETENTION * min(kept)) if kept else {}


def _died_again(history: History) -> Found:
    window_s = 15 * MINUTE
    if not _is_complete(history, window_s):
        return {}

    def died(values: Found) -> dict[Labels, float]:
        return added_up(values, lambda labels: labels[:1], lambda labels: labels[1] == "died")

    before = died(history.at("dlx_redrive_letters", window_s))
    now = died(history.now("dlx_redrive_letters"))
    grown = {vhost: value - before.get(vhost, 0.0) for vhost, value in now.items()}
    return {vhost: value for vhost, value in grown.items() if value > 0}


def _backlog_growing(history: History) -> Found:
    now = history.now(BACKLOG)
    found: dict[Labels, float] = {}
    if _is_complete(history, 20 * MINUTE):
        before = history.over(BACKLOG, 30 * MINUTE, 2 * MINUTE)
        found = {
            queue: value
            for queue, value in now.items()
            if value >= LONG_BACKLOG and value > GROWTH * max(before.get(queue, [0.0]))
        }
    windows = [history.over(BACKLOG, 5 * MINUTE, ago * MINUTE) for ago in (0, 6, 12)]
    for queue in windows[0].keys() & windows[1].keys() & windows[2].keys():
        last, before_it, first = (window[queue] for window in windows)
        if min(last) > max(before_it) and min(before_it) > max(first):
            found.setdefault(queue, now.get(queue, min(last)))
    return found


def _disk_fills_up(history: History) -> Found:
    found = {}
    before = history.at(DISK, 30 * MINUTE)
    for labels, free in history.now(DISK).items():
        lost_a_second = (before.get(labels, free) - free) / (30 * MINUTE)
        if free < LITTLE_SPACE or free < lost_a_second * FULL_WITHIN_S:
            found[labels] = free
    return found


def _stale(history: History) -> Found:
    if not _gate_is_open(history) or not sum(history.now(LAG).values()):
        return {}
    silence = {
        labels: history.now_s - at_s
        for labels, at_s in history.now("dlx_last_batch_timestamp_seconds").items()
    }
    return {labels: silence_s for labels, silence_s in silence.items() if silence_s > SILENT_S}


def _lag_growing(history: History) -> Found:
    if not _gate_is_open(history):
        return {}
    found: dict[Labels, float] = {}
    now = added_up(history.now(LAG), lambda labels: labels[:1])
    for window_s, most in LAGS:
        before = added_up(history.at(LAG, window_s), lambda labels: labels[:1])
        windows = history.over(LAG, window_s)
        least = added_up(
            {labels: min(values) for labels, values in windows.items()}, lambda labels: labels[:1]
        )
        for topic, value in now.items():
            if most < least.get(topic, 0.0) and most < before.get(topic, 0.0) < value:
                found.setdefault(topic, least[topic])
    return found


def _slow(history: History) -> Found:
    """The 99th percentile, interpolated within its class as Prometheus does."""
    grown = history.increase(VISIBLE, 10 * MINUTE)
    classes = sorted((float(labels[0]), count) for labels, count in grown.items())
    if not classes or classes[-1][1] <= 0:
        return {}
    rank = SLOWEST * classes[-1][1]
    below_s = below = 0.0
    for bound_s, count in classes:
        if count >= rank:
            inside = (rank - below) / (count - below)
            at_s = below_s if bound_s == float("inf") else below_s + (bound_s - below_s) * inside
            return {(): at_s} if at_s > SLOW_S else {}
        below_s, below = bound_s, count
    return {}


def _present(name: str, wanted: Callable[[float], bool]) -> Callable[[History], Found]:
    return lambda history: {
        labels: value for labels, value in history.now(name).items() if wanted(value)
    }


def _digest_differs(history: History) -> Found:
    known = history.over("dlx_failure", 10 * MINUTE)
    return {labels: 1.0 for labels in known if labels == ("folds-differ",)}


def _quarantine(history: History) -> Found:
    grown = history.increase("dlx_publish_faults_total", 10 * MINUTE)
    return {
        labels: value for labels, value in grown.items() if labels == ("quarantined",) and value > 0
    }


def _held(history: History) -> Found:
    held = total(history.now("dlx_held_messages").values())
    return {labels: value for labels, value in held.items() if value > 0}


QUEUE: Final = ("vhost", "queue")
CONDITIONS: Final[Mapping[str, Condition]] = {
    "DlxMessagesDie": ((*QUEUE, "reason"), _messages_die),
    "DlxDeathBurst": ((*QUEUE, "reason"), _death_burst),
    "DlxDeadLettersLost": ((*QUEUE, "outcome"), _lost),
    "DlxNewCause": ((*QUEUE, "reason"), _new_cause),
    "DlxDeadLettersUnhandled": (QUEUE, lambda history: _longer_than(history, OLD_S)),
    "DlxMessagesHeld": ((), _held),
    "DlxNearRetention": (QUEUE, _near_retention),
    "DlxRedriveDiesAgain": (("vhost",), _died_again),
    "DlxNoConsumer": (QUEUE, _present("dlx_unconsumed_messages", lambda count: count > 0)),
    "DlxBacklogGrowing": (QUEUE, _backlog_growing),
    "DlxNearMaxLength": (
        QUEUE,
        _present("dlx_queue_fill_ratio", lambda share: share >= NEARLY_FULL),
    ),
    "DlxDigestDiffers": (("code",), _digest_differs),
    "DlxKafkaUnreachable": ((), _present("dlx_kafka_reachable", lambda answers: answers == 0)),
    "DlxDiskFillsUp": ((), _disk_fills_up),
    "DlxUnexplained": ((), _present("dlx_unexplained", lambda rows: rows > 0)),
    "DlxQuarantine": (("kind",), _quarantine),
    "DlxPublishesThrottled": ((), _present("dlx_gate_open", lambda is_open: is_open == 0)),
    "DlxJobStale": ((), _stale),
    "DlxLagGrowing": (("topic",), _lag_growing),
    "DlxSlow": ((), _slow),
}
"""Alert -> its condition."""

FAMILIES: Final = frozenset(
    {
        *(DEATHS, WAITING, LAG, BACKLOG, DISK),
        *("dlx_totals_complete", "dlx_gate_open", "dlx_retention_seconds", "dlx_redrive_letters"),
        *("dlx_last_batch_timestamp_seconds", "dlx_failure", "dlx_publish_faults_total"),
        *("dlx_held_messages", "dlx_unconsumed_messages", "dlx_queue_fill_ratio"),
        *("dlx_kafka_reachable", "dlx_unexplained", "dlx_quiet_queue"),
        "dlx_produce_to_visible_seconds",
    }
)
"""The families that conditions read."""


class Alert(NamedTuple):
    """What identifies an alert: its name and its labels, without empty ones."""

    name: str
    labels: tuple[tuple[str, str], ...]


def alert_of(name: str, names: tuple[str, ...], labels: Labels) -> Alert:
    """What identifies an alert with these labels."""
    pairs = zip(names, labels, strict=True)
    return Alert(name, tuple((label, value) for label, value in pairs if value))


def conditions_of(history: History) -> Iterator[tuple[Alert, float]]:
    """What is wrong now, with the value that says how much, without the queues that are quiet."""
    quiet = history.now("dlx_quiet_queue").keys()
    for name, (names, find) in CONDITIONS.items():
        can_be_quiet = names[:2] == QUEUE and name != "DlxNearRetention"
        for labels, value in find(history).items():
            is_quiet = {(*labels[:2], ""), (*labels[:2], name)} & quiet
            if not (can_be_quiet and is_quiet):
                yield alert_of(name, names, labels), value


class Watch:
    """Follows conditions until they have held for as long as their rule says.

    Args:
        holds_s: alert -> how long.
    """

    def __init__(self, holds_s: Mapping[str, float]) -> None:
        self._holds_s = holds_s
        self.history = History()
        self._since_s: dict[Alert, float] = {}

    def step(self, now_s: float, samples: Samples) -> dict[Alert, float]:
        """Read samples; return the alerts that fire, with their values."""
        self.history.add(now_s, samples)
        found = dict(conditions_of(self.history))
        self._since_s = {alert: self._since_s.get(alert, now_s) for alert in found}
        return {
            alert: value
            for alert, value in found.items()
            if now_s - self._since_s[alert] >= self._holds_s[alert.name]
        }
