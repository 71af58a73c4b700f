"""Console blocks: commands with what they print, run again and compared, or regenerated.

Commands are run by bash, so that they may have pipes. What differs from run to run (times, ids,
counters of Kafka) is compared by its form: the first time a page shows such a value, the value
that was really printed is remembered for it and put into the commands that follow.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from tools.docs.markdown import ROOT

PROMPT: Final = "$ "
TIMEOUT_S: Final = 300
COMMIT_S: Final = 30
"""The longest time from a job's answer to the rows of its batch."""
QUESTIONS: Final = (
    *("dlx dead-letters", "dlx balance", "dlx queues list", "dlx queues peek"),
    *("dlx query", "dlx tables"),
)
"""Commands that only read the tables: they may be asked again until a batch is committed."""

_VOLATILE: Final = re.compile(
    r"""
    \d{4}-\d\d-\d\dT[\d:.]+Z        # an instant
    | (?:\d{4}-\d\d-\d\d\ )?\b\d\d:\d\d:\d\d\b  # an instant of a listing
    | \b\d+[smhd]\ ago\b
    | \b\d+(?:\.\d+)?m?s\b         # a duration
    | \b\d+\.\d+\.\d+\b             # a delivery id
    | \b\d+/\d+/\d+\b               # a message id
    | \bpublisher-[0-9a-f]+-\d+\b   # a publisher's channel
    | (?<=\#)\d+                    # an event
    | (?<=\bcopy\ )\d+
    | (?<=\bbatch\ )\d+
    | (?<=\boffset\ )\d+
    | (?<=\btopic\ )[\w.-]+         # the topics of a test have names of their own
    """,
    re.VERBOSE,
)
_SPACES: Final = re.compile(r" {2,}|-{2,}")


_PATIENCE: Final = """\
case "$1 $2" in
    publish*|get*|consume*|ack*|reject*) set -- "$1" --timeout 120 "${@:2}" ;;
    definitions*|policies*|"queues purge") set -- "$1" "$2" --timeout 120 "${@:3}" ;;
esac
"""


class Step(NamedTuple):
    """A command and what the page says that it prints."""

    command: str
    output: str


def steps(session: str) -> Iterator[Step]:
    """The commands of a console block."""
    for part in re.split(r"^(?=\$ )", session, flags=re.MULTILINE):
        if part:
            command, _, output = part.partition("\n")
            yield Step(command.removeprefix(PROMPT), output)


class Sessions:
    """A shell for console blocks; what one block learns of volatile values, the next ones know.

    Args:
        folder: where the commands run; also an attribute.
        patient: whether commands may wait for a job that runs.
        environment: further variables for the commands.
    """

    def __init__(
        self,
        folder: Path,
        *,
        patient: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        plain = {"COLUMNS": "100", "DLX_TZ": "UTC", "NO_COLOR": "1", "TERM": "dumb"}
        self._environment = {**plain, **environment}
        self._patient = patient
        self._actual: dict[str, str] = {}

    def run(self, command: str) -> str:
        """What a command prints, errors included."""
        program = f'"{sys.executable}" -P -m streaming.cli "$@"'
        shell = f"dlx() {{\n{_PATIENCE if self._patient else ''}{program}\n}}\n"
        script = shell + re.sub(r"(^|\| )\./dlx\b", r"\1dlx", self._with_actual(command))
        finished = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=os.environ | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return finished.stdout

    def differences(self, session: str) -> list[str]:
        """Run a session; each command whose output is not what the page says, with both."""
        found = []
        for step in steps(session):
            printed = self._settled(step)
            if not self._agree(step.output, printed):
                found.append(f"$ {step.command}\n--- page\n{step.output}--- now\n{printed}")
        return found

    def renewed(self, session: str) -> str:
        """Run a session; its text with what the commands print now, where its form has changed."""
        return "".join(f"$ {step.command}\n{self._learned(step)}" for step in steps(session))

    def _learned(self, step: Step) -> str:
        if self._patient and step.command.startswith(QUESTIONS):
            time.sleep(COMMIT_S / 10)
        printed = self.run(step.command)
        return step.output if self._agree(step.output, printed) else printed

    def _settled(self, step: Step) -> str:
        """What a command prints; of a running job's tables, once it is what the page shows."""
        deadline_s = time.monotonic() + COMMIT_S
        printed = self.run(step.command)
        if self._patient and step.command.startswith(QUESTIONS):
            while time.monotonic() < deadline_s and _form(printed) != _form(step.output):
                time.sleep(1)
                printed = self.run(step.command)
        return printed

    def _with_actual(self, command: str) -> str:
        return _VOLATILE.sub(lambda found: self._actual.get(found[0], found[0]), command)

    def _agree(self, shown: str, printed: str) -> bool:
        shown_values, printed_values = _VOLATILE.findall(shown), _VOLATILE.findall(printed)
        if len(shown_values) == len(printed_values):
            self._actual.update(zip(shown_values, printed_values, strict=True))
        return _form(shown) == _form(printed)


def _form(text: str) -> str:
    """A text without what is volatile, and without the spaces that follow its length."""
    return _SPACES.sub("  ", _VOLATILE.sub("@", text))


CHECKOUT: Final = Sessions(ROOT)
"""Runs the commands that need nothing but the checkout."""


def is_pure(session: str) -> bool:
    """Whether a session's commands all run in the checkout."""
    return all(step.command.startswith("./dlx ") for step in steps(session))
