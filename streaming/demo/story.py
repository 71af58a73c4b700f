"""The demo's story: a bad deploy kills one kind of order; find the cause, and send them back.

    30 % of the time: release 2.0 of the invoices worker --> orders in yen are dead-lettered
    60 % of the time: release 2.1 --> new orders are invoiced again
    at the end: which ones died? what was there before? send them back, until each is acknowledged

The questions are real commands, run as a user would type them, so their numbers are the tables'.
"""

import os
import select
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console

from streaming.demo.errors import DemoError
from streaming.demo.order_process import (
    BAD_RELEASE,
    FAILED_INVOICES,
    INVOICES,
    POISONED,
    REPAIRED_RELEASE,
    VHOST,
)
from streaming.demo.screen import say
from streaming.demo.steps import Step
from streaming.queries.duckdb_tables import QueryError, Tables
from streaming.queries.redrives.outcomes import outcome_of
from streaming.storage.location import Location

DEPLOYED_AT: Final = 0.3
REPAIRED_AT: Final = 0.6
"""Shares of the demo's time."""

MIN_POISONED: Final = 3
"""The deaths that the story needs; a short demo waits for them."""

COMMAND_TIMEOUT_S: Final = 120.0

Command = Callable[[Sequence[str], Path, int], str]

AS_OF: Final = "--as-of"


def run_dlx(arguments: Sequence[str], config: Path, width: int) -> str:
    """Run a `dlx` command about a job, and return what it prints.

    Raises:
        DemoError: it has failed.
    """
    environment: Mapping[str, str] = {
        **os.environ,
        "DLX_CONFIG": str(config),
        "COLUMNS": str(width),
        "NO_COLOR": "1",
    }
    finished = subprocess.run(  # noqa: S603 - our own command
        (sys.executable, "-P", "-m", "streaming.cli", *arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if finished.returncode:
        said = finished.stderr.strip()[:500]
        raise DemoError(f"`dlx {' '.join(arguments)}` has failed: {said}")
    return finished.stdout


class Story:
    """Tells the story on a console.

    Args:
        config: the configuration file of the demo's job.
        pauses: the steps before which it waits for Enter.
        dlx: runs a command.
    """

    def __init__(
        self, config: Path, console: Console, pauses: frozenset[Step], dlx: Command = run_dlx
    ) -> None:
        self._dlx = dlx
        self._config = config
        self._console = console
        self._pauses = pauses
        self._instants: dict[Step, str] = {}

    def mark(self, step: Step, at: datetime | None = None) -> None:
        """Remember when a release was deployed: now, or at an instant in UTC."""
        instant = (at or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
        self._instants[step] = f"{instant.isoformat(timespec='milliseconds')}Z"

    def deploy(self, step: Step, release: str, reason: str) -> None:
        """Note that a release of the invoices worker is deployed, as a script that deploys does."""
        self.mark(step)
        worker = ("invoices-worker", release, "--vhost", VHOST, "--queue", INVOICES)
        self._output("deployed", *worker, "--reason", reason, "--timeout", "60")

    def pauses_at(self, step: Step) -> bool:
        """Whether the user wants to pause before a step."""
        return step in self._pauses

    def ask(self, step: Step) -> None:
        """Ask for Enter before a step."""
        say(self._console, f"\npaused before the step {step}: Enter continues", "bold")

    def cause(self) -> int:
        """Show what died since the bad release, by its currency; how many letters died."""
        since = self._instants[Step.deploy]
        self._title(f"What has died in {INVOICES} since release {BAD_RELEASE} was deployed?")
        options = ("--queue", INVOICES, "--since", since, "--by", "queue,reason,header:currency")
        self._run("dead-letters", "groups", *options)
        found = self._ask("dead-letters", "groups", *options)
        count: int = sum(row["deaths"] for row in found)
        poisoned = sum(row["deaths"] for row in found if row["header:currency"] == POISONED)
        if not count:
            self._say("None died: the demo was too short for its bad release.")
        elif count == poisoned:
            self._say(
                f"All {count} were orders in {POISONED}: release {BAD_RELEASE} rounds to cents, "
                "and yen have none."
            )
        else:
            self._say(f"{poisoned} of {count} were orders in {POISONED}.")
        return count

    def before(self) -> None:
        """Show what was in the queue of dead letters when each release came."""
        self._title(f"What was in {FAILED_INVOICES} before?")
        releases = {Step.deploy: BAD_RELEASE, Step.repair: REPAIRED_RELEASE}
        for step, release in releases.items():
            at = self._instants[step]
            depths = {row["queue"]: row["ready"] for row in self._ask("queues", "list", AS_OF, at)}
            count = depths.get(FAILED_INVOICES, 0)
            self._say(f"When release {release} came, at {at}: {count}")
            if step == Step.repair and count:
                self._run("queues", "peek", FAILED_INVOICES, AS_OF, at, "--count", "3")

    def redrive(self) -> str | None:
        """Plan and approve a redrive of the dead invoices; its id, or None if nothing is left."""
        self._title(f"Send them back: release {REPAIRED_RELEASE} can invoice them")
        options = ("--queue", INVOICES)
        plan = self._ask("dead-letters", "redrive", *options)
        [sealed] = plan or [{"letters": 0}]
        if not sealed["letters"]:
            self._say("Nothing is left to send back.")
            return None
        self._command("dead-letters", "redrive", *options)
        self._say(f"plan {sealed['id']}: {sealed['letters']} letters, sealed; nothing moved yet")
        reason = f"release {REPAIRED_RELEASE} is deployed"
        count = str(sealed["letters"])
        approve = ("redrives", "approve", sealed["id"], "--reason", reason, "--timeout", "60")
        self._run(*approve, "--count", count)
        return str(sealed["id"])

    def is_settled(self, tables: Location, redrive_id: str) -> bool:
        """Whether the tables know that each letter of a redrive was acknowledged, or died."""
        try:
            with closing(Tables(tables.url, tables.options)) as opened:
                row = outcome_of(opened, redrive_id).redrive
        except QueryError:  # its first batch is not committed yet
            return False
        return bool(row["status"] != "running" and not row["waiting"])

    def outcome(self, tables: Location, redrive_id: str) -> None:
        """Say what became of the letters."""
        with closing(Tables(tables.url, tables.options)) as opened:
            row = outcome_of(opened, redrive_id).redrive
        self._command("redrives", "show", redrive_id)
        text = f"{row['acked']} of {row['moved']} letters were acknowledged"
        self._say(f"{text}; {row['died']} died again")

    def next_lines(
        self, dlx: Path, url: str | None = None, *, in_cluster: bool = False
    ) -> Iterator[str]:
        """What to try next, on the tables of this run.

        Args:
            dlx: the program.
            url: where AMQP clients connect, if job and front keep running.
            in_cluster: whether it is the demo's in a cluster.
        """
        since = self._instants.get(Step.deploy, "10m")
        program = shlex.quote(str(dlx))
        config = f"--config {shlex.quote(str(self._config))}"
        yield f"{program} why 17 {config}"
        yield f"{program} queues diff {FAILED_INVOICES} {since} {config}"
        yield f"{program} redrives list {config}"
        yield f"{program} dead-letters groups --by routing_key,reason --new-since {since} {config}"
        if url is not None:
            yield f"{program} queues list {config}"
            yield f"{shlex.quote(sys.executable)} -c {shlex.quote(published(url))}"
        else:
            yield f"{program} console {config}"
            place = f"--dir {shlex.quote(str(self._config.parent))}"
            demo = f"{program} demo --cluster {place}" if in_cluster else f"{program} demo {place}"
            yield f"{demo} --keep       (the same again, and the job stays)"
            yield f"{demo} --pause-at redrive   (send the letters back yourself)"

    # -- commands

    def _title(self, text: str) -> None:
        say(self._console, f"\n{text}", "bold")

    def _say(self, text: str) -> None:
        say(self._console, f"  {text}")

    def _command(self, *arguments: str) -> None:
        words = " ".join(f"'{word}'" if " " in word else word for word in arguments)
        say(self._console, f"  $ dlx {words}", "cyan")

    def _run(self, *arguments: str, shown: bool = True) -> None:
        """Run a command and print it with its output."""
        if shown:
            self._command(*arguments)
        for line in self._output(*arguments).splitlines():
            say(self._console, f"  {line}".rstrip())

    def _ask(self, *arguments: str) -> list[dict[str, Any]]:
        output = self._output(*arguments, "--json")
        return [msgspec.json.decode(line) for line in output.splitlines()]

    def _output(self, *arguments: str) -> str:
        return self._dlx(arguments, self._config, max(self._console.width - 2, 40))


def published(url: str) -> str:
    """A program that publishes one message with pika."""
    return (
        f"import pika; c = pika.BlockingConnection(pika.URLParameters({url!r})); "
        f"c.channel().basic_publish('', {INVOICES!r}, b'my first order'); c.close()"
    )


def enter_was_pressed() -> bool:
    """Whether a line or the end of the input has arrived; does not wait."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    if not ready:
        return False
    read = os.read(sys.stdin.fileno(), 4096)
    return not read or b"\n" in read
