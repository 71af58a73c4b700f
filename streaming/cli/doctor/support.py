"""`dlx doctor bundle`: what somebody who helps needs to know of a job, without its secrets."""

import json
import os
import platform
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import attrs
import msgspec
import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import ConfigFile, find_config
from topology.errors import DlxError

MAX_LOG_BYTES: Final = 1_048_576
"""The most of each log file, from its end."""

BATCHES: Final = 100
TIMEOUT_S: Final = 5.0
MIN_SECRET: Final = 6
"""A variable of the environment with a shorter text is no secret, whatever its name."""

_URL_PASSWORD: Final = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@\"']+@")
_URL_TOKEN: Final = re.compile(r"([?&]token=)[^\s&\"']+")
"""What logs in to the console, in a link."""


class BundleError(DlxError):
    """The bundle cannot be written."""


def bundle(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Where to write it. Default: dlx-support-TIME.zip."),
    ] = None,
    *,
    config: ConfigFile = None,
) -> int:
    """Write a zip file with logs, configuration, checks, tables and the last batches.

    It has no messages and no secrets: secrets of the configuration are masked in every file, and so
    are passwords in URLs and variables of the environment such as AWS_SECRET_ACCESS_KEY. Names of
    queues, vhosts, users and routing keys are in it. Look at it before you send it.
    """
    from streaming.config import read_config

    source = find_config(config)
    settings = read_config(source)
    target = file or Path(time.strftime("dlx-support-%Y%m%d-%H%M%S.zip"))
    mask = _mask(settings)
    hidden = target.with_name(f".{target.name}.{os.getpid()}.part")  # until it is complete
    try:
        if target.exists():
            raise BundleError(f"{target} exists: name another file")
        with zipfile.ZipFile(hidden, "x", zipfile.ZIP_DEFLATED) as archive:
            for name, text in _parts(settings, source):
                archive.writestr(name, mask(text))
                print(f"{target}: {name}", file=sys.stderr)
        hidden.rename(target)
    except OSError as error:
        raise BundleError(f"{target}: {error.strerror}; name another file") from None
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
    print(target)
    return EXIT_OK


def _parts(config: Any, source: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of the bundle; one that cannot be made says why."""
    from streaming.config import show_config

    parts: list[tuple[str, Callable[[], str]]] = [
        ("machine.json", _machine),
        ("dlx.toml", lambda: show_config(config)),
        ("doctor.jsonl", lambda: _checks(source)),
        ("tables.jsonl", lambda: _tables(config)),
        ("batches.jsonl", lambda: _batches(config)),
        ("metrics.txt", lambda: _metrics(config)),
    ]
    for name, make in parts:
        try:
            yield name, make()
        except Exception as error:  # noqa: BLE001 - whatever is broken, the rest is wanted
            yield name, f"not available: {type(error).__name__}: {error}\n"
    folder = Path(config.job.log_dir)
    for log in sorted(each for each in folder.glob("*") if each.is_file()):
        try:
            yield f"logs/{log.name}", _end_of(log)
        except OSError as error:
            yield f"logs/{log.name}", f"not available: {error}\n"


def _machine() -> str:
    from streaming.user_folders import user_cache_folder

    document = {
        "platform": platform.platform(),
        "python": sys.version,
        "cores": os.cpu_count(),
        "cache": str(user_cache_folder()),
        "packages": {one.metadata["Name"]: one.version for one in distributions()},
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _checks(source: Path) -> str:
    from streaming.cli.command_group import ROOT
    from streaming.cli.doctor.job import check_job
    from streaming.cli.doctor.machine import check_machine

    findings = [*check_machine(ROOT), *check_job(source, TIMEOUT_S, write=False)]
    return _lines(msgspec.to_builtins(finding) for finding in findings)


def _tables(config: Any) -> str:
    from streaming.job_locations import tables_place
    from streaming.queries.duckdb_tables import Tables
    from streaming.queries.table_info import describe

    location = tables_place(config, os.environ)
    with Tables(location.url, location.options) as tables:
        return _lines(msgspec.to_builtins(one) for one in describe(tables))


def _batches(config: Any) -> str:
    from streaming.cli.doctor.running import last_batches

    return _lines(map(msgspec.to_builtins, last_batches(config, BATCHES)))


def _metrics(config: Any) -> str:
    from streaming.cli.doctor.running import ask

    if config.metrics.listen is None:
        return "metrics.listen is not set\n"
    return ask(config.metrics.listen, "/metrics", TIMEOUT_S)[1] + "\n"


def _end_of(file: Path) -> str:
    with file.open("rb") as log:
        start = max(file.stat().st_size - MAX_LOG_BYTES, 0)
        log.seek(start)
        if start:
            log.readline()  # the rest of a line, which may be the rest of a secret
        return log.read(MAX_LOG_BYTES).decode(errors="replace")


def _lines(documents: Any) -> str:
    return "".join(json.dumps(one, default=str) + "\n" for one in documents)


def _mask(config: Any) -> Callable[[str], str]:
    """Return a function that masks secrets in a text: those of a configuration and its environment.

    Each is fetched by itself, since one that is missing here hides no other.
    """
    from streaming.config import jvm_properties, librdkafka_properties
    from streaming.config.secrets import SecretText, is_secret_name, mask_secrets

    values: list[object] = list(_secrets_of(config))
    readers: tuple[Callable[[], dict[str, str]], ...] = (  # they make texts that contain secrets
        lambda: librdkafka_properties(config.kafka, os.environ),
        lambda: jvm_properties(config.kafka, os.environ),
    )
    for read in readers:
        try:
            values += read().values()
        except DlxError:  # a secret that is not available here is in no file either
            continue
    known = {str(one) for one in values if isinstance(one, SecretText) and one}
    known |= {
        text
        for name, text in os.environ.items()
        if len(text) >= MIN_SECRET and is_secret_name(name)
    }
    hook = urlsplit(config.alerts.webhook or "")
    known |= {part for part in (hook.path, hook.query) if len(part) >= MIN_SECRET}
    escaped = {json.dumps(one)[1:-1] for one in known} | {quote(one, safe="") for one in known}
    secrets = [SecretText(one) for one in sorted(known | escaped, key=len, reverse=True)]
    masks = ((_URL_PASSWORD, r"\1******@"), (_URL_TOKEN, r"\1******"))

    def mask(text: str) -> str:
        text = mask_secrets(text, secrets)
        for pattern, shown in masks:
            text = pattern.sub(shown, text)
        return text

    return mask


def _secrets_of(value: Any) -> Iterator[str]:
    """Yield the texts of the secrets in a configuration that are available here."""
    from streaming.config import Secret, reveal

    if isinstance(value, Secret):
        with suppress(DlxError):
            yield from reveal({"secret": value}, "", os.environ).values()
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _secrets_of(one)
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            yield from _secrets_of(getattr(value, field.name))
