"""What a configuration refers to: definitions files, secrets, certificates.

A job checks all of it before it starts; so does `dlx config check`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from streaming.config.clients import jvm_properties, librdkafka_properties
from streaming.config.model import JobConfig
from streaming.config.secrets import reveal
from streaming.config.types import InvalidConfigError, join_key, refuse
from topology.declarations import Definitions
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError, Problem


def load_vhost_definitions(
    config: JobConfig, skip: Callable[[str], None] = lambda _words: None
) -> dict[str, Definitions]:
    """Vhost -> what its definitions file declares for it, for the vhosts that have a file.

    Args:
        skip: called once for each item of a file that is not modelled and is skipped.

    Raises:
        InvalidConfigError: every problem of every file, each under the setting's path.
    """
    found: dict[str, Definitions] = {}
    problems: list[Problem] = []
    skipped: dict[str, None] = {}
    for vhost, settings in config.vhosts.items():
        if settings.definitions is None:
            continue
        where = f"{join_key('vhosts', vhost)}.definitions"
        path, compat = Path(settings.definitions), config.job.compat
        try:
            loaded = load_definitions(path.read_bytes(), default_vhost=vhost, compat=compat)
        except OSError as error:
            problems.append(Problem(where, f"cannot read {path}: {error.strerror}"))
            continue
        except InvalidTopologyError as error:
            whats = (str(each) if each.where else each.what for each in error.problems)
            problems += [Problem(where, what) for what in whats]
            continue
        skipped.update(dict.fromkeys(f"{path}: {problem}" for problem in loaded.skipped))
        found[vhost] = definitions = loaded.vhosts.get(vhost, Definitions())
        others = [repr(name) for name in loaded.vhosts if name != vhost]
        if others and definitions == Definitions():
            what = f"{path} declares nothing for this vhost, only for {', '.join(others)}"
            problems.append(Problem(where, what))
        else:
            refused = import_problems(config)
            problems += [Problem(where, what) for what in refused]
    refuse(problems)
    for words in skipped:
        skip(words)
    return found


def import_problems(config: JobConfig) -> Iterator[str]:
    """Why a job with this configuration would refuse to import definitions when it starts.

    The import is a command like any other: by the user of the first commands input.
    """
    user = next((each.user for each in config.inputs if each.source == "commands"), None)
    if user is not None and not config.users[user].administrator:
        yield (
            f"are imported by {user!r}, the user of the first commands input, who is not an "
            "administrator (`administrator = true`)"
        )


def check_secrets(config: JobConfig, environ: Mapping[str, str]) -> None:
    """Fetch every secret and certificate once, to check that it is available.

    Raises:
        InvalidConfigError: one problem for each that is missing.
    """
    kafka = config.kafka
    fetches: tuple[Callable[[], object], ...] = (
        partial(reveal, config.job.spark_properties, "job.spark_properties", environ),
        partial(reveal, kafka.security, "kafka.security", environ),
        partial(reveal, kafka.jvm_properties, "kafka.jvm_properties", environ),
        partial(reveal, kafka.librdkafka_properties, "kafka.librdkafka_properties", environ),
        partial(reveal, config.tables.storage_options, "tables.storage_options", environ),
        partial(jvm_properties, kafka, environ),  # reads certificates
        partial(librdkafka_properties, kafka, environ),
    )
    problems: list[Problem] = []
    for fetch in fetches:
        try:
            fetch()
        except InvalidConfigError as error:
            problems += error.problems
    refuse(dict.fromkeys(problems))
