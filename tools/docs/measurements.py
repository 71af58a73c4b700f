"""The figures of the performance page: measured by `dlx bench pipeline`, drawn as one SVG."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

from tools.docs.markdown import DOCS, ROOT

MEASUREMENTS: Final = DOCS / "measurements.json"
PICTURE: Final = DOCS / "images" / "performance.svg"
RATES: Final = (100, 1000, 5000)
"""Messages per second at which the latency is measured."""
QUIET_LOAD: Final = 0.5
"""With a higher load average before the first case, other programs were at work too."""

_LABELS: Final = {
    "copy": "plain copy, Kafka to Delta",
    "lanes_1": "the job, one lane",
    "lanes_2": "the job, two lanes",
    "core": "the broker alone, one core",
}
_VERSUS: Final = {
    "versus_ttl_plain": "expired, dead-lettered",
    "versus_ttl_ids": "the same, with unique ids",
    "versus_length_plain": "queue too long, dead-lettered",
    "versus_length_ids": "the same, with unique ids",
    "versus_consume_1_unlimited": "delivered and acknowledged, 1 queue",
    "versus_consume_1_2000": "acknowledged, 1 queue, prefetch 2,000",
    "versus_consume_10_unlimited": "delivered and acknowledged, 10 queues",
    "versus_consume_10_2000": "acknowledged, 10 queues, prefetch 2,000",
}
"""The comparison with RabbitMQ, drawn below the other figures once it was measured."""
_WIDTH: Final = 940
_BAR: Final = 26
_STYLE: Final = (
    "text { font-family: system-ui, sans-serif; font-size: 14px; fill: #1f2933; } "
    ".t { font-size: 16px; font-weight: 600; } .n { fill: #52606d; font-size: 13px; }"
)


def measure() -> None:
    """Run the benchmarks and write what they say, with a description of the machine."""
    cases = [*_bench("throughput")]
    cases += _bench("latency", *(f"--rate={rate}" for rate in RATES))
    cases += _bench("versus")
    document = {"machine": machine(), "measured": f"{datetime.now(UTC):%Y-%m-%d}", "cases": cases}
    MEASUREMENTS.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _bench(case: str, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-P", "-m", "streaming.cli", "bench", "pipeline", "--json"]
    finished = subprocess.run(
        [*command, "--case", case, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def machine() -> dict[str, Any]:
    """This machine, as far as it matters."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "other_work": os.getloadavg()[0] > QUIET_LOAD,
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def picture() -> str:
    """The picture of what was measured: throughput on the left, latency on the right."""
    document = json.loads(MEASUREMENTS.read_text("utf-8"))
    cases = {case["case"]: case for case in document["cases"] if case["case"] in _LABELS}
    latencies = [case for case in document["cases"] if case["case"] == "latency"]
    found = document["machine"]
    sharing = "Kafka, the load and other programs" if found["other_work"] else "Kafka and the load"
    note = (
        f"{found['cores']} cores ({found['processor']}), shared with {sharing}; "
        f"{found['memory_gib']} GiB of memory; {document['measured']}"
    )
    left = [(label, float(cases[name]["messages_per_s"])) for name, label in _LABELS.items()]
    right = [
        (f"{case['rate']:,} messages/s, {name}", float(case[f"{name}_ms"]))
        for case in latencies
        for name in ("p50", "p99")
    ]
    top = 80 + 2 * _BAR * max(len(left), len(right))
    compared = [each for each in document["cases"] if each["case"] in _VERSUS]
    ours = [(_VERSUS[each["case"]], float(each["ours_per_s"])) for each in compared]
    theirs = [(_VERSUS[each["case"]], float(each["theirs_per_s"])) for each in compared]
    most = max((value for _, value in (*ours, *theirs)), default=0.0)
    height = top + (40 + 2 * _BAR * len(compared) if compared else 0)
    below: list[str] = []
    if compared:
        title = "Messages per second, publisher included: the job"
        below += _panel(20, title, ours, "#2186eb", "", top - 40, most)
        title = f"The same work: RabbitMQ {compared[0]['rabbitmq']}"
        below += _panel(_WIDTH // 2 + 20, title, theirs, "#de911d", "", top - 40, most)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="12" fill="#ffffff"/>',
            *_panel(20, "Messages per second, each dying once", left, "#2186eb", ""),
            *_panel(
                _WIDTH // 2 + 20, "From reject to the row in dead_letters", right, "#3f9142", " ms"
            ),
            *below,
            f'<text x="20" y="{height - 14}" class="n">{escape(note)}</text>',
            "</svg>\n",
        ]
    )


def _panel(
    left: int,
    title: str,
    bars: list[tuple[str, float]],
    colour: str,
    unit: str,
    down: int = 0,
    most: float = 0.0,
) -> Iterator[str]:
    """A title and one horizontal bar per value, with its label above it.

    Args:
        down: how far below the top.
        most: the value of the longest bar; by default the largest value.
    """
    room = _WIDTH // 2 - 140
    most = most or max(value for _, value in bars)
    yield f'<text x="{left}" y="{down + 28}" class="t">{escape(title)}</text>'
    for index, (label, value) in enumerate(bars):
        top = down + 40 + 2 * _BAR * index
        width = max(1, round(room * value / most))
        yield f'<text x="{left}" y="{top + 16}" class="n">{escape(label)}</text>'
        size = f'width="{width}" height="{_BAR - 6}"'
        yield f'<rect x="{left}" y="{top + 21}" {size} fill="{colour}"/>'
        yield f'<text x="{left + width + 8}" y="{top + 37}">{value:,.0f}{unit}</text>'


def draw() -> None:
    """Write the picture of what was measured last."""
    PICTURE.write_text(picture(), "utf-8")
