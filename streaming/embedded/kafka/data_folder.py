"""The broker's directory: locked by one broker, its data folder formatted once.

DIRECTORY/lock       locked while a broker runs
DIRECTORY/data       Kafka's data; its meta.properties names the cluster
DIRECTORY/data.new   a folder that is being formatted; renamed when complete, so that a killed
                     first start leaves nothing that looks like a cluster
"""

import base64
import fcntl
import os
import re
import secrets
import shutil
import subprocess
import time
from pathlib import Path

from streaming.embedded.child import output_of
from streaming.embedded.errors import EmbeddedError
from streaming.embedded.jvm.java import Java, properties_text
from streaming.embedded.kafka.broker_properties import (
    BrokerLimits,
    broker_properties,
    java_command,
)
from streaming.embedded.kafka.ports import Ports

FORMAT_TIMEOUT_S = 120
POLL_S = 0.02
FORMAT_OPTIONS = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-Ddlx.log.level=warn")


def take_directory(directory: Path, log_dir: Path, timeout_s: float) -> int:
    """Create a broker's directory and log folder, and lock the directory.

    Args:
        timeout_s: how long to wait for another broker in the directory to end.

    Returns:
        A file descriptor. The directory is locked as long as a process has it, or a copy, open.

    Raises:
        EmbeddedError: the directory cannot be used, or another broker runs in it.
    """
    if "," in str(directory):
        raise EmbeddedError(
            f"{directory} has a comma in its name, which Kafka reads as a list of folders. Choose "
            "another directory."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        log_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as failure:
        raise EmbeddedError(
            f"Kafka's directory cannot be used: {failure.strerror} ({failure.filename}). Give "
            "write access, or choose another directory."
        ) from failure
    deadline_s = time.monotonic() + timeout_s
    while not _locked(lock):
        if time.monotonic() > deadline_s:
            os.close(lock)
            raise EmbeddedError(
                f"another Kafka is running in {directory}. Stop the dlx that started it, or choose "
                "another directory."
            )
        time.sleep(POLL_S)
    return lock


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cluster_id_of(data_dir: Path) -> str | None:
    """The id of the cluster whose data a folder holds; None if the folder does not exist.

    Raises:
        EmbeddedError: the folder does not hold valid data of a Kafka broker.
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


def format_storage(
    data_dir: Path,
    java: Java,
    jars: list[Path],
    limits: BrokerLimits,
    cluster_id: str | None = None,
) -> str:
    """Format an empty data folder with Kafka's own tool, and return the cluster's id.

    Args:
        cluster_id: by default a new one.

    Raises:
        EmbeddedError: the tool failed; the message quotes its output.
    """
    new_dir = data_dir.with_name(f"{data_dir.name}.new")
    configuration = data_dir.with_name("format.properties")
    log_file = data_dir.with_name("format.log")
    shutil.rmtree(new_dir, ignore_errors=True)
    properties = broker_properties(limits, Ports(1, 2), new_dir)
    configuration.write_text(properties_text(properties), "utf-8")
    cluster_id = cluster_id or new_cluster_id()
    options = (*FORMAT_OPTIONS, f"-Ddlx.log.file={log_file}")
    arguments = ("format", "--cluster-id", cluster_id, "--config", str(configuration))
    command = java_command(java, jars, "kafka.tools.StorageTool", *arguments, options=options)
    try:
        status, said = output_of(command, FORMAT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise EmbeddedError(
            f"Kafka could not format {new_dir}: {failure}\nCheck its Java, "
            f"{java.executable} (from {java.origin})."
        ) from failure
    if status != 0 or cluster_id_of(new_dir) != cluster_id:
        raise EmbeddedError(
            f"Kafka could not format {new_dir} (exit status {status}): {said.strip()}\n"
            "Check that the disk has space and the folder is writable."
        )
    new_dir.rename(data_dir)
    configuration.unlink()
    log_file.unlink(missing_ok=True)
    return cluster_id


def new_cluster_id() -> str:
    """A random id in Kafka's format: 16 bytes in URL-safe base64, 22 characters."""
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):  # it would be read as an option
            return text


def _damaged(data_dir: Path, what: str) -> str:
    return (
        f"{data_dir} does not hold data of a Kafka broker, or is damaged ({what}). Move it away to "
        "start with an empty Kafka, or choose another directory."
    )
