"""Start, stop and use RabbitMQ nodes: `python -m tests.oracle start --version 4.0`."""

import argparse
import sys
from pathlib import Path

from tests.oracle.nodes import VERSIONS, Node, NodeError


def main() -> int:
    """Run one action on the nodes of the versions asked for; the exit status is the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("action", choices=["start", "stop", "reset", "status", "vhost", "ctl"])
    parser.add_argument("arguments", nargs="*", help="names of vhosts, or arguments of rabbitmqctl")
    parser.add_argument("--version", choices=VERSIONS, action="append", help="default: all")
    parser.add_argument("--folder", type=Path, help="of the data; default: the user's cache folder")
    options = parser.parse_args()
    failed = False
    for version in options.version or VERSIONS:
        node = Node(version, options.folder)
        try:
            sys.stdout.write(f"{version}: {_run(node, options.action, options.arguments)}\n")
        except NodeError as error:
            failed = True
            sys.stderr.write(f"{version}: {error}\n")
    return 1 if failed else 0


def _run(node: Node, action: str, arguments: list[str]) -> str:
    match action:
        case "start":
            node.start()
        case "stop":
            node.stop()
        case "reset":
            node.reset()
        case "vhost":
            return " ".join(node.add_vhost(name) for name in arguments)
        case "ctl":
            return node.control(*arguments)
    port = node.version.management_port
    return f"{node.url}, management on port {port}" if node.is_running() else "not running"


if __name__ == "__main__":
    sys.exit(main())
