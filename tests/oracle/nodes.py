"""RabbitMQ nodes that stay up: Debian's installed 3.10.8, and 4.0.5 in a folder of the next Debian.

    FOLDER/trixie/          the files of the next Debian, made by debootstrap at the first start
    FOLDER/node-3.10/       data, logs and cookie of a node; `rm -r` forgets it
    FOLDER/trixie/node-4.0/ the same of the other, below its root

Every node has its own name, ports, epmd and folder, so that they disturb neither each other nor a
RabbitMQ of this machine. The AMQP and management ports listen on the loopback interface alone.
A node runs until `stop`.
"""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
import pika
from pika.exceptions import AMQPError

from streaming.embedded.kafka.ports import LOOPBACK
from streaming.user_folders import user_cache_folder

PROGRAMS: Final = Path("/usr/lib/rabbitmq/bin")
"""Where Debian puts the programs; the wrappers in the PATH change the user."""

START_TIMEOUT_S: Final = 180
STOP_TIMEOUT_S: Final = 60
_POLL_S: Final = 0.3
_MOUNTS: Final = ("proc", "dev")
_SUITE: Final = "trixie"


class NodeError(Exception):
    """A node cannot be started or asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of RabbitMQ that this module can run, and its ports."""

    name: str
    installed: bool  # on this machine; otherwise in the folder of the next Debian
    amqp_port: int
    management_port: int
    distribution_port: int
    epmd_port: int


VERSIONS: Final = {
    version.name: version
    for version in (
        Version("3.10", True, 5610, 15610, 25610, 4610),
        Version("4.0", False, 5640, 15640, 25640, 4640),
    )
}


class Node:
    """One node, running or not.

    Args:
        version: a name in `VERSIONS`.
        folder: where nodes keep their data; by default in the user's cache folder.
    """

    def __init__(self, version: str, folder: Path | None = None) -> None:
        self.version = VERSIONS[version]
        self._folder = (folder or user_cache_folder() / "oracle").absolute()
        self._root = Path("/") if self.version.installed else self._folder / _SUITE
        base = self._folder if self.version.installed else self._root
        self._home = base / f"node-{version}"

    @property
    def url(self) -> str:
        """The URL for AMQP of the vhost `/`."""
        return f"amqp://guest:guest@{LOOPBACK}:{self.version.amqp_port}/%2F"

    @property
    def log(self) -> Path:
        """What the node printed."""
        return self._home / "rabbitmq.out"

    def start(self) -> None:
        """Start the node, unless it runs, and wait until it answers.

        Raises:
            NodeError: it is not installed, or does not answer.
        """
        if self.is_running():
            return
        self._install()
        self._write_configuration()
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                self._command("rabbitmq-server"),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=self._environment(),
                start_new_session=True,  # it outlives the command that starts it
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.is_running():
            if process.poll() is not None or time.monotonic() > deadline_s:
                end = self.log.read_text(errors="replace")[-3000:]
                raise NodeError(f"RabbitMQ {self.version.name} does not answer:\n{end}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the node and its epmd, and release the mounts below its root."""
        if self.is_running():
            self.control("stop", timeout_s=STOP_TIMEOUT_S)
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                self._inside("epmd", "-port", str(self.version.epmd_port), "-kill"),
                env=self._environment(),
                capture_output=True,
                timeout=STOP_TIMEOUT_S,
                check=False,
            )
        if not self.version.installed:
            for name in reversed(_MOUNTS):
                if (self._root / name).is_mount():
                    subprocess.run(["umount", self._root / name], check=False)

    def reset(self) -> None:
        """Stop the node, delete its data, and start it."""
        self.stop()
        shutil.rmtree(self._home / "data", ignore_errors=True)
        self.start()

    def is_running(self) -> bool:
        """Whether the node answers to AMQP and to HTTP."""
        try:
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
            self.call("GET", "/api/overview")
        except (AMQPError, OSError, httpx2.HTTPError):
            return False
        return True

    def add_vhost(self, name: str) -> str:
        """Create a vhost that guest and root may use, unless it exists; return its AMQP URL."""
        self.call("PUT", f"/api/vhosts/{name}", {})
        allowed = {"configure": ".*", "write": ".*", "read": ".*"}
        for user in ("guest", "root"):
            self.call("PUT", f"/api/permissions/{name}/{user}", allowed)
        return self.url.removesuffix("%2F") + name

    def delete_vhost(self, name: str) -> None:
        """Delete a vhost with everything in it."""
        self.call("DELETE", f"/api/vhosts/{name}")

    def call(self, method: str, path: str, body: object = None) -> None:
        """Make one request to the management API.

        Raises:
            httpx2.HTTPError: it failed.
        """
        url = f"http://{LOOPBACK}:{self.version.management_port}{path}"
        with httpx2.Client(auth=("guest", "guest"), trust_env=False, timeout=30) as client:
            client.request(method, url, json=body).raise_for_status()

    def control(self, *arguments: str, timeout_s: float = 120) -> str:
        """Run `rabbitmqctl` for this node; return what it prints.

        Raises:
            NodeError: it failed.
        """
        done = subprocess.run(
            self._command("rabbitmqctl", "--quiet", *arguments),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise NodeError(f"rabbitmqctl {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _install(self) -> None:
        program = self._root / str(PROGRAMS / "rabbitmq-server").lstrip("/")
        if program.exists():
            self._mount()
            return
        if self.version.installed:
            raise NodeError(f"{program} is missing. Install it: apt-get install rabbitmq-server")
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            raise NodeError(
                "RabbitMQ 4.0 needs debootstrap (apt-get install debootstrap) and root."
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        include = "--include=rabbitmq-server"
        command = ["debootstrap", "--variant=minbase", include, _SUITE, str(self._root)]
        subprocess.run(command, check=True)
        self._mount()

    def _mount(self) -> None:
        for name in () if self.version.installed else _MOUNTS:
            if not (self._root / name).is_mount():
                subprocess.run(["mount", "--bind", f"/{name}", self._root / name], check=True)

    def _write_configuration(self) -> None:
        version = self.version
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "enabled_plugins").write_text("[rabbitmq_management].\n")
        (self._home / "environment.conf").touch()
        (self._home / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{version.amqp_port}\n"
            f"management.tcp.ip = {LOOPBACK}\n"
            f"management.tcp.port = {version.management_port}\n"
            "load_definitions = " + self._seen(self._home / "definitions.json") + "\n"
        )
        (self._home / "definitions.json").write_text(_DEFINITIONS)

    def _environment(self) -> dict[str, str]:
        home, version = self._home, self.version
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": self._seen(home),  # of the Erlang cookie
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(version.epmd_port),
            "RABBITMQ_NODENAME": f"oracle-{version.amqp_port}@localhost",
            "RABBITMQ_DIST_PORT": str(version.distribution_port),
            "RABBITMQ_MNESIA_BASE": self._seen(home / "data"),
            "RABBITMQ_LOG_BASE": self._seen(home / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._seen(home / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": self._seen(home / "environment.conf"),
            "RABBITMQ_CONFIG_FILE": self._seen(home / "rabbitmq.conf"),
        }

    def _command(self, program: str, *arguments: str) -> list[str]:
        return self._inside(str(PROGRAMS / program), *arguments)

    def _inside(self, *command: str) -> list[str]:
        return list(command) if self.version.installed else ["chroot", str(self._root), *command]

    def _seen(self, path: Path) -> str:
        """A path as the node sees it."""
        return "/" + str(path.relative_to(self._root))


_ALL_OF_SLASH: Final = '"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"'

_DEFINITIONS: Final = f"""{{
  "users": [
    {{"name": "guest", "password": "guest", "tags": ["administrator"]}},
    {{"name": "root", "password": "root", "tags": ["administrator"]}},
    {{"name": "plain", "password": "plain", "tags": []}}
  ],
  "vhosts": [{{"name": "/"}}],
  "permissions": [
    {{"user": "guest", {_ALL_OF_SLASH}}},
    {{"user": "root", {_ALL_OF_SLASH}}},
    {{"user": "plain", {_ALL_OF_SLASH}}}
  ]
}}
"""
"""Two administrators and a user without tags, as both versions read them."""
