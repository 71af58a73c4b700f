# ruff: noqa: INP001 (a script, not a module of a package)
"""A Spark master or worker in docker-compose.yml, with the Spark and the Java of this image.

spark.py master
spark.py worker spark://HOST:PORT
"""

import os
import socket
import sys
from pathlib import Path

import pyspark

from streaming.embedded.jvm.java import find_java, spark_java_home
from streaming.embedded.spark_cluster import DAEMON_OPTIONS, SCALA_VERSION

PORT = "7077"
CORES = "2"
MEMORY = "2g"


def main(role: str, *master: str) -> None:
    """Become the program."""
    spark_home = Path(pyspark.__file__).parent
    java_home = spark_java_home(find_java())
    host = ("--host", socket.gethostname(), "--webui-port", "0")
    offers = {
        "master": ("org.apache.spark.deploy.master.Master", *host, "--port", PORT),
        "worker": (
            *("org.apache.spark.deploy.worker.Worker", *host, "--work-dir", "/tmp/spark"),  # noqa: S108 - the container's own
            *("--cores", CORES, "--memory", MEMORY, *master),
        ),
    }
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": SCALA_VERSION,
    }
    java = str(java_home / "bin" / "java")
    command = [java, *DAEMON_OPTIONS, "-cp", f"{spark_home / 'jars'}/*", *offers[role]]
    os.execve(java, command, environment)  # noqa: S606 - no shell


if __name__ == "__main__":
    main(*sys.argv[1:])
