"""Importing the client loads neither the job's configuration nor the broker's queues."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
before = set(sys.modules)
import streaming.client
print(json.dumps(sorted(set(sys.modules) - before)))
"""
MAX_MODULES_OF_OURS = 72
NEVER = ("attrs", "tomlkit", "rich", "typer", "re2", "streaming.config")


def test_importing_the_client_loads_little():
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    modules = json.loads(found.stdout)

    assert [name for name in modules if name.startswith(NEVER)] == []
    assert "streaming.broker.queues.queue" not in modules
    ours = [name for name in modules if name.startswith(("streaming", "topology"))]
    assert len(ours) < MAX_MODULES_OF_OURS
