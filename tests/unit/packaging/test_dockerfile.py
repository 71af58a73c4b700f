"""The Dockerfile uses files of the checkout and pinned images, and does not run as root."""

import os
import re
import tomllib
from pathlib import PurePosixPath

from streaming.embedded.jvm.pinned_jars import lock_file
from tests.unit.packaging.container_files import (
    CHECKOUT,
    COMPOSE,
    IMAGE_HOME,
    copies,
    in_checkout,
    instructions,
    is_sent_to_the_builder,
    pinned,
)

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]


def test_images_are_pinned_by_digest_and_the_own_image_has_the_projects_version():
    (base,) = [rest for keyword, rest in instructions() if keyword == "FROM"]

    assert PROJECT["requires-python"] == ">=3.11"
    assert re.fullmatch(r"3\.11\.\d+-slim-bookworm", pinned(base)[1])
    own = f"dlx-stream:{PROJECT['version']}"
    services = COMPOSE["services"]
    built = [name for name, service in services.items() if "build" in service]
    assert [services[name]["image"] for name in built] == [own], "one service builds the image"
    for name, service in services.items():
        if not name.startswith("kafka") and name not in {"store", "prometheus", "grafana"}:
            assert service["image"] == own
    text = (CHECKOUT / "Dockerfile").read_text("utf-8")
    assert set(re.findall(r"dlx-stream:[\w.]+", text)) == {f"dlx-stream:{PROJECT['version']}"}


def test_files_copied_into_the_image_exist_and_are_not_ignored():
    sources = [source for source, _ in copies()]

    assert [source for source in sources if not (CHECKOUT / source).exists()] == []
    assert [source for source in sources if not is_sent_to_the_builder(source)] == []
    assert in_checkout(IMAGE_HOME / "pyproject.toml") is not None, "`dlx --version` reads it"
    for lock in ("kafka", "spark"):
        file = lock_file(lock)
        assert file.is_file()
        assert is_sent_to_the_builder(str(file.relative_to(CHECKOUT))), file
    for path in (".git/HEAD", ".venv/bin/python", "checkpoints/metadata", "tests/conftest.py"):
        assert not is_sent_to_the_builder(path)
    assert not is_sent_to_the_builder("streaming/cli/__pycache__/main.cpython-311.pyc")


def test_the_image_runs_files_that_it_has():
    steps = instructions()
    scripts = [
        word
        for keyword, rest in steps
        if keyword in {"RUN", "ENTRYPOINT", "ENV"}
        for word in re.findall(r"[\w./-]+\.(?:py|txt)|/opt/dlx/dlx", rest)
    ]
    homes = {rest for keyword, rest in steps if keyword == "WORKDIR"}

    assert scripts == [
        "build-constraints.txt",
        "streaming/cli/develop/bootstrap_venv.py",
        "docker/fill_cache.py",
        "/opt/dlx/dlx",
        "/opt/dlx/dlx",
    ]
    for script in scripts:
        found = in_checkout(IMAGE_HOME / script)
        assert found is not None, script
        assert found.is_file(), script
    assert os.access(CHECKOUT / "dlx", os.X_OK)
    assert homes == {str(IMAGE_HOME), "/home/dlx"}


def test_the_programs_user_is_not_root_and_owns_no_program_file():
    steps = instructions()
    made = {
        name: (index, int(user_id))
        for index, (keyword, rest) in enumerate(steps)
        for user_id, name in re.findall(r"useradd --uid (\d+)(?: --[\w-]+)* (\w+)", rest)
        if keyword == "RUN"
    }
    switches = [(index, rest) for index, (keyword, rest) in enumerate(steps) if keyword == "USER"]
    (entry,) = [index for index, (keyword, _) in enumerate(steps) if keyword == "ENTRYPOINT"]
    owned = [
        folder
        for keyword, rest in steps
        for folders in re.findall(r"(?:chown|install -d -o) (.*?)(?:&&|$)", rest)
        for folder in re.findall(r"(/\S+)", folders)
        if keyword == "RUN"
    ]

    ((switch, user),) = switches
    assert made[user][0] < switch < entry
    assert made[user][1] >= 1000, "below it are the system's users"
    assert owned != []
    assert [folder for folder in owned if PurePosixPath(folder).is_relative_to(IMAGE_HOME)] == []


def test_the_image_holds_no_development_tools():
    (installs,) = [
        rest for keyword, rest in instructions() if keyword == "RUN" and "bootstrap_venv.py" in rest
    ]
    copied = {source for source, _ in copies()}

    assert installs.split()[-4:] == [
        *("python", "-I", "streaming/cli/develop/bootstrap_venv.py", str(IMAGE_HOME)),
    ], "without the name of a lock, the runtime lock is installed"
    assert "requirements.lock" in copied
    assert not is_sent_to_the_builder("requirements-dev.lock")


def test_the_build_tools_are_pinned_by_hash():
    text = (CHECKOUT / "build-constraints.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    entries = "\n".join(lines).replace("\\\n", "").splitlines()

    assert [entry.partition("==")[0] for entry in entries] == ["setuptools"]
    for entry in entries:
        assert re.fullmatch(r"[\w-]+==[\d.]+( +--hash=sha256:[0-9a-f]{64})+ *", entry), entry
    assert "build-constraints.txt" in {source for source, _ in copies()}


def test_the_image_and_the_containers_get_no_secrets():
    given = [rest for keyword, rest in instructions() if keyword in {"ENV", "ARG"}]
    for service in COMPOSE["services"].values():
        given += [f"{name}={value}" for name, value in service.get("environment", {}).items()]
        assert service.keys() & {"secrets", "env_file"} == set()
    config = tomllib.loads((CHECKOUT / "docker" / "dlx.toml").read_text("utf-8"))

    assert len(given) > 10
    found = {each for each in given if re.search(r"(?i)passw|secret|token|api_?key", each)}
    # The store opens no port, so its password protects nothing until a user chooses one.
    chosen = "PASSWORD=${DLX_STORE_PASSWORD:-dlx-local-store}"
    assert found == {f"MINIO_ROOT_{chosen}", f"DLX_STORE_{chosen}"}
    assert "ports" not in COMPOSE["services"]["store"]
    assert "security" not in config["kafka"]
    assert config.keys() & {"storage_options", "secrets"} == set()
