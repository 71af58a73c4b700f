"""Looks for what is wrong every few seconds, and tells the webhook, on two threads of its own.

One thread reads the figures of the job, the other one calls the webhook: however long that takes,
the next conditions are found in time, and no batch waits for either.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from streaming.exposition.families import Scrape
from streaming.metrics.alerting.conditions import FAMILIES, NOT_FOUND, VISIBLE, Watch
from streaming.metrics.alerting.history import Labels
from streaming.metrics.alerting.notices import Kept, Notice, Notices, document
from streaming.metrics.alerting.webhook import Webhook, WebhookError, pause_s
from streaming.metrics.alerts import shipped_alerts
from streaming.metrics.collector import JOB
from streaming.metrics.figures import JobFigures

EVERY_S: Final = 15.0
GIVE_UP_S: Final = 3_600.0
"""What is older, and was tried in vain, is dropped."""

LAST_WORDS_S: Final = 5.0
"""How long a job that ends waits for the webhook."""

logger = logging.getLogger(__name__)


class Alerter:
    """Tells a webhook what begins and what ends.

    Args:
        save: keeps what the next start continues with; if it raises, that is logged.
    """

    def __init__(
        self,
        figures: JobFigures,
        webhook: Webhook,
        kept: Kept,
        save: Callable[[Kept], None],
        max_series: int,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._figures, self._webhook, self._save = figures, webhook, save
        self._max_series, self._every_s = max_series, every_s
        self._rules = shipped_alerts()
        holds_s = {name: rule.hold_s for name, rule in self._rules.items()}
        self._watch = Watch({name: holds_s[name] for name in holds_s.keys() - NOT_FOUND})
        self._notices = Notices(kept, figures.started_s)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._is_failing = self._is_full = False
        self._saved = msgspec.json.encode(kept)
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("alerts", self._follow), ("alerts-webhook", self._deliver))
        ]

    def start(self) -> None:
        """Begin to look, and to tell."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look once more, wait a little for the webhook, and keep the rest for the next start."""
        self._look()
        end_s = time.monotonic() + LAST_WORDS_S
        while self._next() is not None and not self._is_failing and time.monotonic() < end_s:
            time.sleep(0.05)
        self._stopping.set()
        self._news.set()

    def _follow(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        try:
            firing = self._watch.step(time.time(), self._samples())
            with self._lock:
                left_out = self._notices.update(time.time(), firing)
                self._keep()
            if left_out and not self._is_full:
                logger.warning("alerts: %d more fire than are remembered", left_out)
                self._figures.notified["dropped"] += left_out
            self._is_full = left_out > 0
            self._news.set()
        except Exception:
            logger.warning("alerts could not be looked for", exc_info=True)

    def _samples(self) -> dict[str, dict[Labels, float]]:
        figures = self._figures
        view = Scrape(figures, "aggregated", list(figures.queues))
        found: dict[str, dict[Labels, float]] = {}
        for family in JOB.families:
            if family.name in FAMILIES and family.histogram is None:
                most = self._max_series if family.share is None else family.share * self._max_series
                samples, _left_out = family.within(view, int(most))
                found[family.name] = dict(samples)
        found[VISIBLE] = {(bound,): count for bound, count in figures.visible_seconds.buckets()}
        return found

    def _keep(self) -> None:
        self._notices.kept.failure = self._figures.failure
        state = msgspec.json.encode(self._notices.kept)
        if state == self._saved:
            return
        try:
            self._save(self._notices.kept)
        except Exception:
            if self._saved:
                logger.warning("alerts: what was told could not be kept", exc_info=True)
            self._saved = b""
        else:
            self._saved = state

    def _next(self) -> Notice | None:
        with self._lock:
            return next(self._notices.untold(), None)

    def _deliver(self) -> None:
        attempts = 0
        while not self._stopping.is_set():
            notice = self._next()
            if notice is None:
                self._news.wait()
                self._news.clear()
                continue
            attempts = 0 if self._tell(notice) else attempts + 1
            if attempts:
                self._stopping.wait(pause_s(attempts))

    def _tell(self, notice: Notice) -> bool:
        """Tell the beginning, or else the end; return whether the next one can be told."""
        end = notice.is_told
        figures = self._figures
        message = document(
            notice,
            self._rules[notice.alert],
            end=end,
            job=figures.job_name,
            console_url=figures.console_url,
        )
        try:
            self._webhook.tell(message)
        except WebhookError as error:
            figures.notified["failed"] += 1
            if not self._is_failing:
                logger.warning("alerts: the webhook was not told, and is tried again: %s", error)
            self._is_failing = True
            at_s = notice.ended_s if end else notice.since_s
            assert at_s is not None
            if time.time() - at_s < GIVE_UP_S:
                return False
            figures.notified["dropped"] += 1
            logger.warning("alerts: %s is not told any more: %s", message["id"], message["summary"])
        else:
            figures.notified["sent"] += 1
            if self._is_failing:
                logger.info("alerts: the webhook answers again")
            self._is_failing = False
        with self._lock:
            self._notices.told(notice, end=end)
            self._keep()
        return True
