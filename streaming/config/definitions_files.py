"""What a configuration points at: definitions files, secrets, certificates.

A job looks at all of it before it starts; `dlx config check` does too.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from streaming.config.clients import jvm_properties, librdkafka_properties
from streaming.config.errors import InvalidConfigError, Place
from streaming.config.import_rules import import_problems
from streaming.config.model import JobConfig
from streaming.config.secrets import reveal
from topology.declarations import Definitions
from topology.definitions.load import load_definitions
from topology.errors import InvalidTopologyError, Problem


def load_vhost_definitions(
    config: JobConfig, leave_out: Callable[[str], None] = lambda _words: None
) -> dict[str, Definitions]:
    """Vhost -> what its definitions file declares for it, for the vhosts that have a file.

    Args:
        leave_out: told, once for each, what of a file is not modelled and is left out.

    Raises:
        InvalidConfigError: with every problem of every file, each under the setting's path.
    """
    place = Place("vhosts")
    found: dict[str, Definitions] = {}
    left_out: dict[str, None] = {}
    for vhost, settings in config.vhosts.items():
        if settings.definitions is not None:
            here = place.key(vhost).key("definitions")
            definitions = _load(Path(settings.definitions), vhost, config, here, left_out)
            if definitions is not None:
                found[vhost] = definitions
    if place.problems:
        raise InvalidConfigError(place.problems)
    for words in left_out:
        leave_out(words)
    return found


def _load(
    path: Path, vhost: str, config: JobConfig, place: Place, left_out: dict[str, None]
) -> Definitions | None:
    """The part of a file that is for one vhost; None if something was reported."""
    try:
        loaded = load_definitions(path.read_bytes(), default_vhost=vhost, compat=config.job.compat)
    except OSError as error:
        place.report(f"cannot read {path}: {error.strerror}")
        return None
    except InvalidTopologyError as error:
        for problem in error.problems:
            place.report(str(problem))
        return None
    left_out.update(dict.fromkeys(f"{path}: {problem}" for problem in loaded.left_out))
    others = [repr(name) for name in loaded.vhosts if name != vhost]
    definitions = loaded.vhosts.get(vhost, Definitions())
    if others and definitions == Definitions():
        place.report(f"{path} declares nothing for this vhost, only for {', '.join(others)}")
        return None
    problems = list(import_problems(config, vhost, definitions))
    for words in problems:
        place.report(words)
    return None if problems else definitions


def check_secrets(config: JobConfig, environ: Mapping[str, str]) -> None:
    """Fetch every secret and certificate once, to see that they are there.

    Raises:
        InvalidConfigError: one problem for each that is not.
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
    if problems:
        raise InvalidConfigError(tuple(dict.fromkeys(problems)))
