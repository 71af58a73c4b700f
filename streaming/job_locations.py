"""Where the checkpoint and the tables of a configuration are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.config.model import JobConfig
from streaming.config.secrets import reveal
from streaming.config.types import local_folder
from streaming.storage.location import AnyPath, Location

FRONT_FOLDER: Final = "sequencer"
"""What fronts keep is in this folder of the checkpoint."""


def checkpoint_place(config: JobConfig, environ: Mapping[str, str]) -> AnyPath:
    """Return where the checkpoint of a job is.

    Raises:
        InvalidConfigError: a secret cannot be read.
    """
    location = config.job.checkpoint_location
    if local_folder(location) is not None:
        return Path(location)
    return Location(location, storage_options(config, environ))


def tables_place(config: JobConfig, environ: Mapping[str, str]) -> Location:
    """Return where the tables of a job are.

    Raises:
        InvalidConfigError: a secret cannot be read.
    """
    return Location(config.job.tables_location, storage_options(config, environ))


def storage_options(config: JobConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the storage, with their secrets.

    Raises:
        InvalidConfigError: a secret cannot be read.
    """
    return reveal(config.tables.storage_options, "tables.storage_options", environ)
