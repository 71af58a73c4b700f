"""A container engine for tests: the running one, or a Docker daemon of its own for root.

Without a registry, stand-in images take the places of those that docker-compose.yml names:

    base        Debian by debootstrap, with Python; the Dockerfile is built on it
    kafka       the project's own broker jars, configured by the variables of the official image
    prometheus  Debian's Prometheus
    grafana     a program that reads the provisioning as Grafana's user
    store       moto, which keeps objects in memory, behind the commands of MinIO's image
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Self

import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from streaming.embedded.jvm.jars import resolve_jars
from streaming.user_folders import user_cache_folder

CHECKOUT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
BASE = "dlx-test/base"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NEEDED = ("dockerd", "docker", "docker-compose", "debootstrap", "prometheus", "promtool")
START_TIMEOUT_S = 60.0
STORE_PROGRAMS = {
    "minio": '/opt/dlx/.venv/bin/python /opt/stand_in_store.py "$@"',
    "mc": "3<>/dev/tcp/localhost/9000",
}
"""The programs of MinIO's image that docker-compose.yml calls: the server and its health check."""


def missing() -> list[str]:
    """What keeps an engine from starting here."""
    found = [f"{name} is not installed" for name in NEEDED if shutil.which(name) is None]
    return found if os.geteuid() == 0 else [*found, "only root can start dockerd"]


class Engine:
    """A Docker daemon with everything in one folder, without a network of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"DOCKER_HOST": f"unix://{folder}/docker.sock"}
        self._log = (folder / "dockerd.log").open("wb")
        self._daemon = subprocess.Popen(
            [
                *("dockerd", "--data-root", str(folder / "data")),
                *("--exec-root", str(folder / "exec"), "--pidfile", str(folder / "docker.pid")),
                *("--host", self.environment["DOCKER_HOST"], "--storage-driver", _driver(folder)),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._daemon.poll() is not None or time.monotonic() > deadline_s:
                said = (self.folder / "dockerd.log").read_text("utf-8", "replace")
                self.__exit__()
                raise RuntimeError(f"dockerd does not start:\n{said[-2000:]}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._daemon.terminate()
        self._daemon.wait()
        self._log.close()

    def _answers(self) -> bool:
        asked = ["docker", "info"]
        done = subprocess.run(asked, env=self.environment, capture_output=True, check=False)
        return done.returncode == 0

    def run(
        self, *command: str, cwd: Path | None = None, more: Mapping[str, str] | None = None
    ) -> str:
        """Run a command with this engine; return its output."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment | dict(more or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-4000:]}")
        return done.stdout


def _driver(folder: Path) -> str:
    """overlay2 where the kernel and the file system have it, else vfs, which copies."""
    for name in ("lower", "upper", "work", "merged"):
        (folder / "probe" / name).mkdir(parents=True)
    probe = folder / "probe"
    options = ",".join(f"{name}dir={probe / name}" for name in ("lower", "upper", "work"))
    command = ["mount", "-t", "overlay", "overlay", "-o", options, str(probe / "merged")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return "vfs"
    subprocess.run(["umount", str(probe / "merged")], check=True)
    return "overlay2"


def checkout_with_umask_077(folder: Path) -> Path:
    """Copy the files of the checkout, readable for their owner alone."""
    copy = folder / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = CHECKOUT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o700 if os.access(source, os.X_OK) else 0o600)
    for path in [copy, *copy.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)
    return copy


def use_base(engine: Engine, checkout: Path) -> None:
    """Build the base, and let the images of the copy be built on it."""
    _import_base(engine)
    for dockerfile in (checkout / "Dockerfile", checkout / "docker" / "Dockerfile.memory"):
        text = dockerfile.read_text("utf-8")
        [line] = [line for line in text.splitlines() if line.startswith("FROM ")]
        dockerfile.write_text(text.replace(line, f"FROM {BASE}"), "utf-8")


def build_images(engine: Engine, checkout: Path) -> None:
    """Build the image of the checkout and the stand-ins on the base; adapt the copy to them."""
    compose = checkout / "docker-compose.yml"
    document: dict[str, Any] = yaml.safe_load(compose.read_text("utf-8"))
    services = document["services"]
    own = services["job"]["image"]
    engine.run("docker", "build", "--network", "host", "--tag", own, ".", cwd=checkout)
    for name, lines in _stand_ins(own).items():
        context = engine.folder / name
        context.mkdir()
        for file in HERE.glob("stand_in_*.py"):
            shutil.copy(file, context)
        if name == "kafka":
            _copy_jars(context / "jars")
        if name == "store":
            _copy_packages(context / "packages", ("moto", "flask"))
            for program, line in STORE_PROGRAMS.items():
                (context / program).write_text(f"#!/bin/bash\nexec {line}\n")
        if name == "prometheus":
            for program in ("prometheus", "promtool"):
                shutil.copy(str(shutil.which(program)), context)
        (context / "Dockerfile").write_text("\n".join(lines), "utf-8")
        engine.run("docker", "build", "--tag", f"dlx-test/{name}", ".", cwd=context)
        image = services[name]["image"]
        body = compose.read_text("utf-8")
        compose.write_text(body.replace(f"image: {image}", f"image: dlx-test/{name}"), "utf-8")


def _stand_ins(own: str) -> dict[str, list[str]]:
    python = '"/opt/dlx/.venv/bin/python"'
    return {
        "kafka": [
            f"FROM {own}",
            "USER root",
            "COPY jars/ /opt/dlx/.cache/dlx-stream/jars/",
            "COPY stand_in_kafka.py /opt/",
            "ENV PYTHONPATH=/opt/dlx",
            f'ENTRYPOINT [{python}, "/opt/stand_in_kafka.py"]',
            "CMD []",
        ],
        "store": [
            f"FROM {own}",
            "USER root",
            "COPY packages/ /opt/packages/",
            "COPY stand_in_store.py /opt/",
            "ENV PYTHONPATH=/opt/dlx:/opt/packages",
            "COPY minio mc /usr/local/bin/",
            "RUN chmod 755 /usr/local/bin/minio /usr/local/bin/mc",
        ],
        "prometheus": [
            f"FROM {BASE}",
            "COPY prometheus promtool /bin/",
            "RUN mkdir /prometheus && chown 65534 /prometheus",
            "USER 65534",
            "WORKDIR /prometheus",
            'ENTRYPOINT ["/bin/prometheus"]',
        ],
        "grafana": [
            f"FROM {BASE}",
            "COPY stand_in_grafana.py /opt/",
            'ENTRYPOINT ["python3", "/opt/stand_in_grafana.py"]',
        ],
    }


def _import_base(engine: Engine) -> None:
    root = engine.folder / "base"
    packages = "python3,python3-pip,python3-venv,python-is-python3,ca-certificates,wget"
    engine.run("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root))
    for mark in root.glob("usr/lib/python3.*/EXTERNALLY-MANAGED"):
        mark.unlink()  # Python's image lets pip install, too
    shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    changes = [f"ENV {name}={CERTIFICATES}" for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")]
    archive = engine.folder / "base.tar"
    engine.run("tar", "--create", "--file", str(archive), "--directory", str(root), ".")
    shutil.rmtree(root)
    options = [word for change in changes for word in ("--change", change)]
    engine.run("docker", "import", *options, str(archive), BASE)
    archive.unlink()


def _copy_packages(target: Path, names: Sequence[str]) -> None:
    """Copy the files of packages, and of what they need, from this environment."""
    wanted, copied = list(names), set()
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name in copied:
            continue
        copied.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra, or of another system
        wanted += [Requirement(one).name for one in found.requires or ()]
        for file in found.files or ():
            source, copy = Path(str(file.locate())), target / file
            if ".." in file.parts or not source.is_file() or source.suffix == ".pyc":
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
    _open_for_all(target)


def _copy_jars(target: Path) -> None:
    folder = user_cache_folder() / "jars"
    for jar in resolve_jars("kafka"):
        copy = target / jar.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(jar, copy)
    _open_for_all(target)


def _open_for_all(target: Path) -> None:
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
