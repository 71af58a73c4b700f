"""A real Prometheus scrapes an hour of scripted values; each alert fires for its cause alone.

The hour is played 120 times as fast: a minute takes 0.5 s, and the windows of the shipped rules are
as much shorter. On a machine that stalls meanwhile, it is played again, at half the speed. All
cases are targets of the same Prometheus. What takes longer than an hour, or less than a minute, or
needs several targets, as fronts do, is played by promtool alone (`dlx config alerts test`).
"""

import json
import re
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from streaming.metrics.alert_cases import CASES as ALL_CASES
from streaming.metrics.alert_cases import HEALTHY, WHERE
from streaming.metrics.alerts import RULES
from tests.fixtures.prometheus import Prometheus, program
from tests.fixtures.scripts import values_of
from tests.fixtures.waiting import wait_until

SPEEDS = (120, 60, 30)
SCRAPES_PER_MINUTE = 2
LAST_MINUTE = 62
ELSEWHERE = "instance="
"""A series of a target of its own."""

CASES = [
    case
    for case in ALL_CASES
    if case.minute <= LAST_MINUTE and not any(ELSEWHERE in name for name in case.series)
]
MAX_GAP_MINUTES = 3
"""Without scrapes or evaluations; the values of a machine that stalls longer mean nothing."""

UNITS = {"s": 1, "m": 60, "h": 3600}
UP = re.compile(r'up\{(?:job="(\w+)")?\}')


def faster(rules, speed):
    """The rules with windows, offsets, durations and ages of a hour that passes faster."""

    def shorter(found):
        milliseconds = int(found[2]) * UNITS[found[3]] * 1_000 // speed
        return f"{found[1]}{milliseconds}ms"

    rules = re.sub(r"(\[|offset |for: )(\d+)([smh])\b", shorter, rules)
    rules = re.sub(r"([>,]) 4 \* 3600", rf"\1 {4 * 3600 / speed}", rules)
    return re.sub(r"_timestamp_seconds > 300", f"_timestamp_seconds > {300 / speed}", rules)


class Script(ThreadingHTTPServer):
    """Serves the values of each case, by its number, as of the present minute of the hour."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, speed):
        super().__init__(("127.0.0.1", 0), Answer)
        self.speed = speed
        self.series = [
            {
                name: values_of(script)
                for name, script in {**HEALTHY, **case.series}.items()
                if ELSEWHERE not in name
            }
            for case in CASES
        ]
        self.began_s = time.time()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def minute(self):
        return int((time.time() - self.began_s) * self.speed / 60)

    def targets(self, case):
        """What Prometheus scrapes for a case: the job, and what else has a value of `up`."""
        return [found[1] or WHERE["job"] for found in map(UP.fullmatch, self.series[case]) if found]

    def document(self, case, job):
        """The exposition of a target of a case; None while it is down."""
        minute = self.minute
        lines = []
        for name, values in self.series[case].items():
            value = values[min(minute, len(values) - 1)] if minute < len(values) else None
            found = UP.fullmatch(name)
            if found:
                if value == 0 and (found[1] or WHERE["job"]) == job:
                    return None
            elif value is not None and job == WHERE["job"]:
                if "timestamp_seconds" in name:
                    value = self.began_s + value / self.speed
                elif name.startswith("dlx_retention_seconds"):
                    value /= self.speed
                lines.append(f"{name} {value!r}")
        return "\n".join(lines) + "\n"


class Answer(BaseHTTPRequestHandler):
    """Answers one scrape."""

    protocol_version = "HTTP/1.1"
    server: Script

    def do_GET(self):
        _empty, case, job = self.path.split("/")
        document = self.server.document(int(case), job)
        body = (document or "down\n").encode()
        self.send_response(503 if document is None else 200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        """Answer, unless Prometheus has given up."""
        with suppress(BrokenPipeError, ConnectionResetError):
            super().handle()

    def log_message(self, *_arguments):
        """Log nothing."""


def play_the_hour(folder, speed):
    """Play the hour.

    Returns:
        The alerts that fired, those that fire at its end, and the longest gap of scrapes, or the
        time of the evaluations that were missed, in minutes.
    """
    script = Script(speed)
    minute_s = 60 / speed
    address = f"127.0.0.1:{script.server_address[1]}"
    targets = [
        {
            "targets": [address],
            "labels": {
                "__metrics_path__": f"/{number}/{job}",
                "instance": f"case-{number}",
                "job": job,
            },
        }
        for number in range(len(CASES))
        for job in script.targets(number)
    ]
    rules = faster(RULES.read_text(), speed)
    interval = f"{round(1_000 * minute_s / SCRAPES_PER_MINUTE)}ms"
    server = Prometheus(folder, targets, rules=rules, interval=interval)
    try:
        script.began_s = time.time()
        wait_until(lambda: script.minute >= LAST_MINUTE, timeout_s=LAST_MINUTE * minute_s + 30)
        window = f"{int(LAST_MINUTE * minute_s)}s"
        fired = server.query(f'max_over_time(ALERTS{{alertstate="firing"}}[{window}])')
        firing = server.query('ALERTS{alertstate="firing"}')
        scrapes = server.query(f"up[{window}]")
        missed = server.missed_evaluations()
    finally:
        server.stop()
        script.shutdown()
        script.server_close()
    down = {
        f"case-{number}" for number, case in enumerate(CASES) if any(map(UP.fullmatch, case.series))
    }
    times = [
        [at_s for at_s, value in one["values"] if value == "1"]
        for one in scrapes
        if one["metric"]["instance"] not in down
    ]
    gaps = [later - earlier for one in times for earlier, later in pairwise(one)]
    ever, last = ([one["metric"] for one in found] for found in (fired, firing))
    return ever, last, max(max(gaps) / minute_s, missed / SCRAPES_PER_MINUTE)


def by_cause(alerts):
    """The names and labels of alerts, by the cause that they are of."""
    about_the_case = {"__name__", "alertstate", "instance", "severity", "alertname"}
    found: dict[str, set[tuple[str, str]]] = {case.cause: set() for case in CASES}
    for one in alerts:
        labels = {name: value for name, value in one.items() if name not in about_the_case}
        case = CASES[int(one["instance"].removeprefix("case-"))]
        found[case.cause].add((one["alertname"], json.dumps(labels, sort_keys=True)))
    return found


def expected(alerts):
    """The same, as a case states it."""
    return {
        (name, json.dumps({"job": WHERE["job"], **labels}, sort_keys=True))
        for name, labels in alerts.items()
    }


@pytest.mark.long
def test_each_alert_fires_in_its_hour_and_no_other(tmp_path):
    program("prometheus")
    gap = 0.0
    for speed in SPEEDS:
        folder = tmp_path / str(speed)
        folder.mkdir()
        ever, at_the_end, gap = play_the_hour(folder, speed)
        if gap <= MAX_GAP_MINUTES:
            break
    else:
        pytest.fail(f"the machine stalled for {gap:.1f} minutes even at the lowest speed")

    assert by_cause(ever) == {case.cause: expected({**case.ended, **case.fires}) for case in CASES}
    ended = {case.cause: expected(case.ended) for case in CASES if case.ended}
    left = {
        cause: alerts & ended[cause]
        for cause, alerts in by_cause(at_the_end).items()
        if cause in ended
    }
    assert not any(left.values()), left


def test_a_script_has_the_values_that_promtool_would_give_it():
    assert values_of("3 _ 1x2 0+2x2 stale _ 5-1x1 -4x1") == [
        *(3, None, 1, 1, 1, 0, 2, 4, None, None, 5, 4, -4, -4)
    ]
