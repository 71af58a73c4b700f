"""Readers of Dockerfile, docker-compose.yml and .dockerignore."""

import fnmatch
import re
from pathlib import Path, PurePosixPath

import yaml  # type: ignore[import-untyped]

CHECKOUT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text("utf-8"))
IMAGE_HOME = PurePosixPath("/opt/dlx")
PINNED = re.compile(r"(?P<name>[\w/]+):(?P<tag>[\w.-]+)@sha256:[0-9a-f]{64}")
PORT = re.compile(r"([\d.]+):\$\{(DLX_[A-Z_]+_PORT):-(\d+)\}:(?:(\d+)|\$\{\2:-(\3)\})")
SIZE_BYTES = {"m": 2**20, "g": 2**30}


def pinned(image):
    """Name and tag of an image whose digest is given."""
    found = PINNED.fullmatch(image)
    assert found, image
    return found["name"], found["tag"]


def instructions():
    """The instructions of the Dockerfile as (keyword, rest), with continued lines joined."""
    text = (CHECKOUT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line]


def copies():
    """The files copied into the image: (path in the checkout, path in the image)."""
    for keyword, rest in instructions():
        if keyword == "COPY":
            *sources, target = rest.split()
            for source in sources:
                name = "" if source.endswith("/") else PurePosixPath(source).name
                yield source, IMAGE_HOME / target / name


def in_checkout(path):
    """The file of the checkout that is at a path of the image, or None."""
    for source, place in copies():
        if PurePosixPath(path).is_relative_to(place):
            return CHECKOUT / source / PurePosixPath(path).relative_to(place)
    return None


def is_sent_to_the_builder(path):
    """Whether .dockerignore admits a path; the last matching pattern decides."""
    sent = True
    for line in (CHECKOUT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = PurePosixPath(path).parts
        heads = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        names = parts if "**/" in line else heads
        if line and not line.startswith("#") and any(fnmatch.fnmatch(n, pattern) for n in names):
            sent = line.startswith("!")
    return sent


def mounts(service):
    """The mounts of a container by path: (source, whether it is read-only)."""
    parts = [each.split(":") for each in service.get("volumes", [])]
    return {target: (source, mode[:1] in (["ro"], ["ro,z"])) for source, target, *mode in parts}


def published(service):
    """The ports of a container: (host, variable of the port there, its default, port)."""
    found = [PORT.fullmatch(each) for each in service.get("ports", [])]
    assert all(found), service["ports"]
    return [
        (host, variable, default, inside or same)
        for host, variable, default, inside, same in (one.groups() for one in found if one)
    ]


def size_bytes(text):
    return int(text[:-1]) * SIZE_BYTES[text[-1]]
