"""The demo's AMQP front: `dlx amqp` as a process of its own, which ends with the demo."""

import re
import sys
import time
from pathlib import Path
from typing import Final

from streaming.demo.errors import DemoError
from streaming.embedded.child import Child, interrupts_deferred, start_child
from streaming.embedded.kafka.ports import LOOPBACK, is_free

AMQP_PORT: Final = 5672
START_TIMEOUT_S: Final = 60.0
STOP_GRACE_S: Final = 15.0

_SAYS: Final = re.compile(r"^listening on amqp://[^:]+:(\d+)$", re.MULTILINE)


class DemoFront:
    """One front, on RabbitMQ's port if that is free.

    Args:
        config: the configuration of the demo's job.
        output: what the front says.
    """

    def __init__(self, config: Path, output: Path) -> None:
        self._config = config
        self._output = output
        self._child: Child | None = None

    def start(self) -> int:
        """Start it; return the port, once clients may come.

        Raises:
            DemoError: it has ended, or does not answer.
        """
        port = AMQP_PORT if is_free(AMQP_PORT) else 0
        command = (
            *(sys.executable, "-P", "-m", "streaming.cli", "amqp"),
            *("--config", str(self._config), "--host", LOOPBACK, "--port", str(port)),
        )
        with interrupts_deferred():
            self._child = start_child(
                command, self._output, cwd=self._config.parent, grace_s=STOP_GRACE_S
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            said = self._output.read_text("utf-8", "replace") if self._output.exists() else ""
            found = _SAYS.search(said)
            if found is not None:
                return int(found[1])
            if self._child.status() is not None:
                break
            time.sleep(0.1)
        raise DemoError(f"the AMQP front did not start; {self._output} says why")

    def stop(self) -> None:
        """Stop it in order."""
        if self._child is not None:
            self._child.request_stop()
            self._child.wait()
