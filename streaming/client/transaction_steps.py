"""What a transaction has in it, as the command `check` asks about it.

Bodies, and what else of a publish can never be refused, are left out; alike publishes are asked
about once, and neighbouring settlements of a channel together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from topology.values import table_to_json

REFS_AT_ONCE = 100

Step = dict[str, Any]


class Steps:
    """The publishes and settlements of one transaction, in order."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._publishes: set[bytes] = set()

    def publish(
        self,
        exchange: str,
        properties: Mapping[str, Any] | None,
        headers: Mapping[str, Any] | None,
    ) -> None:
        """Add a publish that the client itself found nothing wrong with."""
        step: Step = {"op": "publish", "exchange": exchange}
        if properties is not None and "expiration" in properties:
            step["expiration"] = properties["expiration"]
        named = {name: (headers or {}).get(name, []) for name in ("CC", "BCC")}
        odd = {name: value for name, value in named.items() if not isinstance(value, list | tuple)}
        if odd:
            step["headers"] = table_to_json(odd)
        known = _json(step)
        if known not in self._publishes:
            self._publishes.add(known)
            self._steps.append(step)

    def settle(self, channel: str, refs: list[str], *, multiple: bool) -> None:
        """Add a settlement; whether it is an ack or its opposite decides nothing."""
        step: Step = {"op": "ack", "channel": channel, "multiple": multiple}
        last = self._steps[-1] if self._steps else {}
        if last == {**step, "refs": last.get("refs")}:
            last["refs"].extend(refs)
        else:
            self._steps.append({**step, "refs": list(refs)})

    def checks(self, most_bytes: int) -> list[Step]:
        """The commands that ask about it all, each with at most so many bytes of steps."""
        groups: list[list[Step]] = []
        room = 0
        for step in self._pieces():
            size = len(_json(step)) + 1
            if size > room:
                groups.append([])
                room = most_bytes
            groups[-1].append(step)
            room -= size
        return [{"op": "check", "steps": steps} for steps in groups]

    def _pieces(self) -> Iterator[Step]:
        for step in self._steps:
            if step["op"] == "publish":
                yield step
            else:
                refs = step["refs"]
                for first in range(0, len(refs), REFS_AT_ONCE):
                    yield {**step, "refs": refs[first : first + REFS_AT_ONCE]}


def _json(step: Step) -> bytes:
    return json.dumps(step, ensure_ascii=False, separators=(",", ":")).encode()
