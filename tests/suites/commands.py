"""Give rabbitmqadmin the same commands at two servers, and compare what it prints.

    python -m tests.suites.commands PROGRAM --theirs http://localhost:15640 --ours http://...:15672

The commands are in support/rabbitmqadmin_commands.txt, in an order in which they build on each
other; those behind `~` print what differs from server to server, such as statistics and hashes, or
what docs/compatibility.md says, and are only run. They change everything that the servers have, so
both must be new ones, whose only user is guest. Widths of columns, and the order of lines, do not
count.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from tests.suites.catalogue import SUPPORT

_GUEST: Final = ("guest", "guest")
_HASH: Final = re.compile(r"[A-Za-z0-9+/]{48}(?=\s|$)")
_TIMEOUT_S: Final = 300
_HASHED: Final = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
_IMPORTED: Final = ("imp", "classic"), ("impv", "quorum")

Outcome = tuple[int, list[str], str]
"""The exit status, the lines of the output, and what was complained of."""


def main() -> int:
    """Run all commands at both servers; the exit status is 1 if any outcome differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites.commands", description=__doc__)
    parser.add_argument("program", type=Path, help="rabbitmqadmin 2")
    parser.add_argument("--theirs", required=True, help="the management API of a RabbitMQ")
    parser.add_argument("--ours", required=True, help="that of `dlx amqp`")
    options = parser.parse_args()
    text = (SUPPORT / "rabbitmqadmin_commands.txt").read_text("utf-8")
    commands, different = text.splitlines(), 0
    with TemporaryDirectory(prefix="dlx-commands-") as folder:
        _write_definitions(Path(folder))
        both = [
            _outcomes(options.program, url, commands, Path(folder))
            for url in (options.theirs, options.ours)
        ]
        for command, theirs, ours in zip(commands, *both, strict=True):
            if theirs != ours and not command.startswith("~"):
                different += 1
                sys.stdout.write(f"{command}\n  theirs {theirs}\n  ours   {ours}\n")
    sys.stdout.write(f"{len(commands)} commands, {different} differ\n")
    return 1 if different else 0


def _outcomes(program: Path, url: str, commands: list[str], folder: Path) -> list[Outcome]:
    """What each command did at a server."""
    with httpx2.Client(auth=_GUEST, trust_env=False, timeout=30) as client:
        node = str(client.get(f"{url}/api/overview").json()["node"])
    where = urlsplit(url)
    server = ["--host", where.hostname or "localhost", "--port", str(where.port or 15672)]
    found = []
    for command in commands:
        words = [_word(word, node, folder) for word in command.removeprefix("~ ").split(" ")]
        user = [] if "--username" in words[:1] else ["--username", "guest", "--password", "guest"]
        done = subprocess.run(
            [str(program), *server, "--non-interactive", *user, *words],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        found.append(
            (done.returncode, _lines(done.stdout, node), done.stderr.replace(node, "NODE"))
        )
    return found


def _word(word: str, node: str, folder: Path) -> str:
    places = {"NODE": node, '""': "", "CLUSTER": f"{folder}/cluster", "VHOST": f"{folder}/vhost"}
    return places.get(word, word)


def _lines(output: str, node: str) -> list[str]:
    lines = (" ".join(line.split()) for line in output.replace(node, "NODE").splitlines())
    return sorted(_HASH.sub("HASH", line) for line in lines if line)


def _write_definitions(folder: Path) -> None:
    """The documents that the commands import."""
    (cluster, vhost) = (
        {
            "name": name,
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": kind},
        }
        for name, kind in _IMPORTED
    )
    user: dict[str, Any] = {
        "name": "adm-i",
        "password_hash": _HASHED,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": ["management"],
        "limits": {},
    }
    document = {
        "users": [user],
        "vhosts": [{"name": "adm"}],
        "queues": [cluster | {"vhost": "adm"}],
    }
    (folder / "cluster").write_text(json.dumps(document), "utf-8")
    (folder / "vhost").write_text(json.dumps({"queues": [vhost]}), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
