"""Stories of short scenarios."""

import json

from streaming.scenario.document import parse_scenario
from streaming.scenario.story import tell


def story(*steps, compat="4.0", end_ms=1000, **definitions):
    """The story of steps, 10 ms apart by default, without the list of queues."""
    timed = [{"at_ms": 10 * index, **step} for index, step in enumerate(steps)]
    document = {"id": "s", "definitions": definitions, "steps": timed, "end_ms": end_ms}
    lines = [line.text for line in tell(parse_scenario(json.dumps(document), "s"), compat)]
    return lines[lines.index("") + 1 :] if "" in lines else lines


def publish(body, key="q", **fields):
    """A publish to the default exchange."""
    return {"op": "publish", "routing_key": key, "body": body, **fields}


def queue(name="q", **arguments):
    """A queue; `max_length=1` is `x-max-length: 1`."""
    return {
        "name": name,
        "arguments": {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()},
    }


GET = {"op": "get", "queue": "q"}
