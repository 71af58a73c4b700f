"""636 scenarios as RabbitMQ 3.10.8 and 4.0.5 played them, packed into one file.

    golden/NAME.json        262 scenarios written by hand; `rules` names the rules they exercise
    fuzz/fuzz-NUMBER.json   230 random topologies and scripts
    fuzz/limits-NUMBER.json  71 random chains of limited classic and quorum queues with requeues
    fuzz/rings-NUMBER.json   73 random rings of dead-letter exchanges with many rejections

Each broker was a single node with default settings, in a process of its own, asked over AMQP 0-9-1.
Each scenario ran on it at least three times: twice on schedule, once with every step delayed by up
to 30 ms. Only scenarios with equal outcomes in all runs were kept. A document's `outcomes` maps
each version to what its clients saw; `difference` is `none`, `headers` or `semantic`.

`runner.py` recorded them. To play them all:

    .venv/bin/python -m tests.recordings unpack /tmp/recordings
    ./dlx simulate --check --compat 3.10 /tmp/recordings/golden /tmp/recordings/fuzz
"""

import json
import lzma
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from streaming.broker.commands import Qos, Settle
from streaming.scenario.compare import compare
from streaming.scenario.document import VERSIONS, Scenario, parse_file
from streaming.scenario.play import Outcome
from topology.values import Compat

PACKED = Path(__file__).with_name("scenarios.json.xz")
FOLDERS = ("golden", "fuzz")
PARTS = {"golden/": 262, "fuzz/fuzz-": 230, "fuzz/limits-": 71, "fuzz/rings-": 73}
"""The number of recordings by the prefix of their names."""


def pack(folder: Path, packed: Path = PACKED, *, preset: int = 9 | lzma.PRESET_EXTREME) -> int:
    """Pack the scenario documents below a folder; equal documents give equal bytes.

    Args:
        preset: how much time to take for a small file.

    Returns:
        The number of documents.
    """
    documents = {
        f"{part}/{path.name}": json.loads(path.read_bytes())
        for part in FOLDERS
        for path in sorted((folder / part).glob("*.json"))
    }
    text = json.dumps(documents, separators=(",", ":"), ensure_ascii=False)
    packed.write_bytes(lzma.compress(text.encode(), preset=preset))
    return len(documents)


def differences(scenario: Scenario, compat: Compat, outcome: Outcome) -> Sequence[object]:
    """The differences between an outcome and the recorded one, including error texts."""
    recorded = scenario.outcomes[VERSIONS[compat]]
    found = compare(recorded, outcome)
    return found if found or outcome == recorded else ["the text of an error differs"]


def unpack(folder: Path, packed: Path = PACKED) -> int:
    """Write each scenario document into its own file below a folder.

    Returns:
        The number of documents.
    """
    documents = _documents(packed)
    for name, document in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(document), "utf-8")
    return len(documents)


@cache
def recorded_scenarios(prefix: str = "") -> tuple[Scenario, ...]:
    """The recorded scenarios whose names start with a prefix, such as `golden/`.

    Raises:
        ValueError: a document is not a valid scenario.
    """
    scenarios: list[Scenario] = []
    for name, document in _documents(PACKED).items():
        if name.startswith(prefix):
            file = parse_file(_text(document).encode(), Path(name).stem)
            if file.problems:
                message = f"{name}: {file.problems}"
                raise ValueError(message)
            scenarios += file.scenarios
    return tuple(scenarios)


def recorded_for_lanes() -> tuple[Scenario, ...]:
    """The recorded scenarios that mean the same in a vhost of several lanes.

    There are no common delivery tags there, and a limit of a whole channel is divided.
    """
    return tuple(scenario for scenario in recorded_scenarios() if not _needs_one_lane(scenario))


def _needs_one_lane(scenario: Scenario) -> bool:
    return any(
        isinstance(step.action, Settle) or (isinstance(step.action, Qos) and step.action.is_global)
        for step in scenario.steps
    )


def _documents(packed: Path) -> dict[str, Any]:
    documents: dict[str, Any] = json.loads(lzma.decompress(packed.read_bytes()))
    return documents


def _text(document: object) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
