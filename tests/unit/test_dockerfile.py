"""The Dockerfile uses what the checkout has, pinned to the byte, and its program is not root's."""

import os
import re
import tomllib

from tests.unit.container_files import (
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


def test_images_are_pinned_to_the_byte_and_ours_has_the_version_of_the_project():
    (base,) = [rest for keyword, rest in instructions() if keyword == "FROM"]

    assert PROJECT["requires-python"] == ">=3.11"
    assert re.fullmatch(r"3\.11\.\d+-slim-bookworm", pinned(base)[1])
    for name, service in COMPOSE["services"].items():
        if name != "kafka":
            assert (service["build"], service["image"]) == (".", f"dlx-stream:{PROJECT['version']}")
    text = (CHECKOUT / "Dockerfile").read_text("utf-8")
    assert set(re.findall(r"dlx-stream:[\w.]+", text)) == {f"dlx-stream:{PROJECT['version']}"}


def test_what_the_image_is_made_from_exists_and_reaches_the_builder():
    sources = [source for source, _ in copies()]

    assert [source for source in sources if not (CHECKOUT / source).exists()] == []
    assert [source for source in sources if not is_sent_to_the_builder(source)] == []
    assert is_sent_to_the_builder("streaming/embedded/locks/spark.lock.toml")
    for path in (".git/HEAD", ".venv/bin/python", "checkpoints/metadata", "tests/conftest.py"):
        assert not is_sent_to_the_builder(path)
    assert not is_sent_to_the_builder("streaming/cli/__pycache__/main.cpython-311.pyc")


def test_the_image_runs_files_that_it_has_and_not_as_root():
    steps = instructions()
    scripts = [
        word
        for keyword, rest in steps
        if keyword in {"RUN", "ENTRYPOINT", "ENV"}
        for word in re.findall(r"[\w./-]+\.(?:py|txt)|/opt/dlx/dlx", rest)
    ]
    homes = {rest for keyword, rest in steps if keyword == "WORKDIR"}
    users = [rest for keyword, rest in steps if keyword == "USER"]

    assert scripts == [
        "streaming/cli/bootstrap_venv.py",
        "docker/fill_cache.py",
        "/opt/dlx/dlx",
    ]
    for script in scripts:
        found = in_checkout(IMAGE_HOME / script)
        assert found is not None, script
        assert found.is_file(), script
    assert os.access(CHECKOUT / "dlx", os.X_OK)
    assert homes == {str(IMAGE_HOME), "/home/dlx"}
    assert users == ["dlx"]
    assert any("useradd --uid 10001 --create-home dlx" in rest for _, rest in steps)


def test_what_the_image_is_built_with_is_pinned_by_hash_and_there_are_no_secrets():
    text = (CHECKOUT / "build-constraints.txt").read_text("utf-8")
    pins = re.findall(
        r"^(\w+)==[\d.]+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE
    )
    whole = "".join(
        (CHECKOUT / name).read_text("utf-8")
        for name in ("docker-compose.yml", "Dockerfile", "docker/dlx.toml")
    )

    assert pins == ["setuptools"]
    assert "build-constraints.txt" in {source for source, _ in copies()}
    assert re.findall(r"(?i)password|token|api_key|\$\{", whole) == []
