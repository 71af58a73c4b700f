"""Kafka's official image, as far as docker-compose.yml uses it: properties from KAFKA_ variables.

It runs in an image of this project, with the jars of the embedded broker.
"""

import os
import subprocess
import sys
from pathlib import Path

from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import find_java, properties_text
from streaming.embedded.kafka.broker_properties import java_command

CONFIGURATION = Path("/tmp/server.properties")  # noqa: S108 (of a container)


def main() -> None:
    """Format the storage unless it is formatted, and become the broker."""
    properties = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith("KAFKA_")
    }
    heap = properties.pop("heap.opts")
    CONFIGURATION.write_text(properties_text(properties), "utf-8")
    java, jars = find_java(), resolve_jars("kafka")
    options = ("-Ddlx.log.file=/tmp/kafka.log", "-Ddlx.log.level=info")
    cluster = ("--cluster-id", os.environ["CLUSTER_ID"], "--config", str(CONFIGURATION))
    tool = ("kafka.tools.StorageTool", "format", "--ignore-formatted", *cluster)
    subprocess.run(java_command(java, jars, *tool, options=options), check=True)
    command = java_command(java, jars, "kafka.Kafka", str(CONFIGURATION), options=(*options, heap))
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
