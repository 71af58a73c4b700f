# ruff: noqa: INP001, S104, S603 (a script; a container is reached at each address; our command)
"""The program of the image for tests: `dlx amqp --memory`, as RabbitMQ's image is started.

    RABBITMQ_DEFAULT_USER, _PASS, _VHOST   the user, its password and its vhost: guest, guest, /
    RABBITMQ_NODE_PORT                     the port of AMQP: 5672

Arguments are further options of `dlx amqp --memory`. With --definitions, users and vhosts are those
of that file alone. It prints "Server startup complete" as RabbitMQ does, which programs wait for.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from streaming.amqp.login import new_password_hash

AMQP_PORT = "5672"
MANAGEMENT_PORT = "15672"
METRICS_PORT = "15692"
LAST_LINE = "metrics at "
READY = (
    "Server startup complete; 2 plugins started.\n * rabbitmq_management\n * rabbitmq_prometheus"
)


def definitions(environment: Mapping[str, str]) -> dict[str, object]:
    """The user and the vhost that RabbitMQ's image makes of its environment."""
    user = environment.get("RABBITMQ_DEFAULT_USER", "guest")
    password = environment.get("RABBITMQ_DEFAULT_PASS", "guest")
    vhost = environment.get("RABBITMQ_DEFAULT_VHOST", "/")
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    hashed = {
        "password_hash": new_password_hash(password),
        "hashing_algorithm": "rabbit_password_hashing_sha256",
    }
    return {
        "users": [{"name": user, **hashed, "tags": ["administrator"]}],
        "vhosts": [{"name": vhost}],
        "permissions": [{"user": user, "vhost": vhost, **everything}],
    }


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Run the broker until a signal; return its exit status."""
    port = environment.get("RABBITMQ_NODE_PORT", AMQP_PORT)
    management = environment.get("DLX_MANAGEMENT_PORT", MANAGEMENT_PORT)
    metrics = environment.get("DLX_METRICS_PORT", METRICS_PORT)
    with tempfile.TemporaryDirectory() as folder:
        if "--definitions" not in arguments:
            file = Path(folder) / "definitions.json"
            file.write_text(json.dumps(definitions(environment)), "utf-8")
            arguments = ["--definitions", str(file), *arguments]
        command = [sys.executable, "-m", "streaming.cli", "amqp", "--memory", "--host", "0.0.0.0"]
        command.append("--remote-guest")  # as in RabbitMQ's image
        ports = ["--port", port, "--management", management, "--metrics", metrics]
        with subprocess.Popen(
            [*command, *ports, *arguments], stdout=subprocess.PIPE, text=True
        ) as broker:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda sent, _frame: broker.send_signal(sent))
            assert broker.stdout is not None
            for line in broker.stdout:
                print(line, end="", flush=True)  # noqa: T201 (what the container says)
                if line.startswith(LAST_LINE):
                    print(READY, flush=True)  # noqa: T201 (the same)
        return broker.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
