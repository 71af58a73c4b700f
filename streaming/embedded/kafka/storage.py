"""The broker's data folder: made once, recognised afterwards.

DIRECTORY/data       what Kafka stores; its meta.properties names the cluster
DIRECTORY/data.new   a folder that is being formatted; renamed when complete, so that a killed
                     first start leaves nothing that looks like a cluster
"""

import base64
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.java import Java
from streaming.embedded.kafka.properties import (
    BrokerLimits,
    broker_properties,
    java_command,
    write_properties,
)

FORMAT_TIMEOUT_S = 120
FORMAT_OPTIONS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-Ddlx.log.level=warn")


def cluster_id_of(data_dir: Path) -> str | None:
    """The id of the cluster whose data a folder holds; None if there is no such folder.

    Raises:
        EmbeddedError: the folder is not, or no longer, the data of a Kafka broker.
    """
    if not data_dir.exists():
        return None
    try:
        text = (data_dir / "meta.properties").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        raise EmbeddedError(_damaged(data_dir, f"meta.properties: {failure}")) from failure
    found = re.search(r"^cluster\.id=(\S+)$", text, re.MULTILINE)
    if found is None:
        raise EmbeddedError(_damaged(data_dir, "meta.properties names no cluster"))
    return found[1]


def format_storage(data_dir: Path, java: Java, jars: list[Path], limits: BrokerLimits) -> str:
    """Make an empty data folder with Kafka's own tool.

    Returns:
        The id of the new cluster.

    Raises:
        EmbeddedError: the tool failed; says what it said.
    """
    new_dir = data_dir.with_name(f"{data_dir.name}.new")
    configuration = data_dir.with_name("format.properties")
    log_file = data_dir.with_name("format.log")
    shutil.rmtree(new_dir, ignore_errors=True)
    write_properties(
        configuration, broker_properties(limits, port=1, controller_port=2, data_dir=new_dir)
    )
    cluster_id = new_cluster_id()
    command = java_command(
        java,
        jars,
        "kafka.tools.StorageTool",
        *("format", "--cluster-id", cluster_id, "--config", str(configuration)),
        options=(*FORMAT_OPTIONS, f"-Ddlx.log.file={log_file}"),
    )
    try:
        ended = subprocess.run(  # noqa: S603 (Java, with arguments of our making)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise EmbeddedError(
            f"Kafka could not prepare {new_dir}: {failure}\nCheck the Java it was given, "
            f"{java.executable} (from {java.origin})."
        ) from failure
    if ended.returncode != 0 or cluster_id_of(new_dir) != cluster_id:
        raise EmbeddedError(
            f"Kafka could not prepare {new_dir} (exit status {ended.returncode}): "
            f"{ended.stdout.strip()}\nCheck that the disk has room and the folder can be written."
        )
    new_dir.rename(data_dir)
    configuration.unlink()
    log_file.unlink(missing_ok=True)
    return cluster_id


def new_cluster_id() -> str:
    """A random id in Kafka's form: 16 bytes in URL-safe base64, 22 characters."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):  # it would be read as an option
            return text


def _damaged(data_dir: Path, what: str) -> str:
    return (
        f"{data_dir} is not the data of a Kafka broker, or is damaged ({what}). Move it away to "
        "start with an empty Kafka, or name another directory."
    )
