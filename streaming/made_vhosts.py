"""Sequenced vhosts that a front has made while it ran: the configuration does not name them.

    CHECKPOINT/sequencer/vhosts.NUMBER

Front and job add them to those of the configuration. Whoever deletes such a vhost empties it and
lets nobody in. Its log stays, and so does what the tables have: a vhost that is made again goes on
in that log, as empty as a new one.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

import attrs
import msgspec

from streaming.config.model import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.job_locations import FRONT_FOLDER, checkpoint_place
from streaming.storage.location import AnyPath, storage_of
from streaming.storage.numbered_file import NumberedFile
from topology.errors import DlxError, InvalidDocumentError

MOST: Final = 1_000
"""How many may ever be made: each has a topic that the job reads."""

State = Literal["there", "again", "ending", "deleted"]
"""Of a vhost. What is `ending` is emptied before it is deleted, and what is made `again` before it
is there: an input may have had something for it meanwhile."""

_FILE: Final = "vhosts"

LOOK_S: Final = 1.0
"""How often a job looks for new ones."""

PAUSE_S: Final = 10.0
"""How long it reads the logs that it knows before it looks again: it takes seconds to add some."""

logger = logging.getLogger(__name__)


class VhostsUnreadableError(DlxError):
    """It is not known which vhosts were made."""


class TooManyVhostsError(DlxError):
    """No further vhost can be made."""


class _Content(msgspec.Struct):
    version: Literal[1]
    vhosts: dict[str, State]


class MadeVhosts:
    """The list of them. Any process may change it."""

    def __init__(self, checkpoint: AnyPath) -> None:
        self._place = checkpoint / FRONT_FOLDER
        self._file = NumberedFile(storage_of(self._place), _FILE)

    def read(self) -> dict[str, State]:
        """Each vhost that was ever made, in that order.

        Raises:
            OSError: the storage does not answer.
            VhostsUnreadableError: it is no such list.
        """
        return self.read_version()[0]

    def read_version(self) -> tuple[dict[str, State], int]:
        """The same, and which version of the list that is."""
        found = self._file.read()
        if found is None:
            return {}, 0
        content, version = found
        try:
            return msgspec.json.decode(content, type=_Content).vhosts, version
        except msgspec.DecodeError as error:
            raise VhostsUnreadableError(
                f"{self._place}/{_FILE}.{version} is damaged ({error}). Restore it, or remove it "
                "and name the vhosts in dlx.toml, each with sequenced = true"
            ) from error

    def note(
        self, name: str, state: State, *, after: State | None = None, version: int | None = None
    ) -> bool:
        """Note how a vhost is from now on; whether it is so then.

        A front may sleep before it notes what it has done: another one may lead the vhost then.

        Args:
            after: how it must be until then.
            version: of the list; it must be the newest.

        Raises:
            OSError, VhostsUnreadableError: as in `read`.
            TooManyVhostsError: it is a new one, and there are MOST.
        """
        while True:
            vhosts, newest = self.read_version()
            if vhosts.get(name) == state:
                return True
            if after not in (None, vhosts.get(name)) or version not in (None, newest):
                return False
            if name not in vhosts and len(vhosts) >= MOST:
                raise TooManyVhostsError(
                    f"{MOST} vhosts were made at run time, which is the limit: a deleted one counts"
                )
            content = _Content(1, {**vhosts, name: state})
            text = msgspec.json.format(msgspec.json.encode(content))
            if self._file.replace(text, newest) is not None:
                return True


def with_vhosts(config: JobConfig, names: Iterable[str]) -> JobConfig:
    """A configuration that names further vhosts, all of them sequenced.

    Raises:
        InvalidDocumentError: it cannot name one of them.
    """
    new = {name: VhostSettings(sequenced=True) for name in names if name not in config.vhosts}
    if not new:
        return config
    found = attrs.evolve(config, vhosts={**config.vhosts, **new})
    problems = tuple(found.contradictions())
    if problems:
        raise InvalidDocumentError(problems)
    return found


def with_made_vhosts(
    config: JobConfig, environ: Mapping[str, str] = os.environ, *, deleted: bool = True
) -> JobConfig:
    """A configuration that names the vhosts that were made at run time, too.

    Args:
        deleted: also those that are deleted: the tables have them.

    Raises:
        VhostsUnreadableError: the list is damaged, or the storage does not answer.
        InvalidDocumentError: a setting has changed, so that it cannot name one of them.
    """
    if not config.log_topics():
        return config  # without a front nobody makes one
    try:
        states = MadeVhosts(checkpoint_place(config, environ)).read()
    except OSError as error:
        raise VhostsUnreadableError(
            f"job.checkpoint_location: vhosts that were made at run time cannot be read: {error}"
        ) from error
    return with_vhosts(
        config, (name for name, state in states.items() if deleted or state != "deleted")
    )


class VhostWatch:
    """Looks again and again for vhosts that were made meanwhile.

    What cannot be read is said once, and nothing ends because of it.

    Args:
        elapsed_s: a clock that never goes back.
    """

    def __init__(
        self, checkpoint: AnyPath, elapsed_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._made = MadeVhosts(checkpoint)
        self._elapsed_s = elapsed_s
        self._next_s = 0.0
        self._said = ""

    def look(self, config: JobConfig) -> JobConfig:
        """The same configuration, or one that names new vhosts, too."""
        now_s = self._elapsed_s()
        if now_s < self._next_s or not config.log_topics():
            return config
        self._next_s = now_s + LOOK_S
        try:
            found = with_vhosts(config, self._made.read())
        except (OSError, DlxError) as error:
            if str(error) != self._said:
                logger.warning("vhosts that a front has made cannot be read: %s", error)
            self._said = str(error)
            return config
        self._said = ""
        if found is not config:
            self._next_s = now_s + PAUSE_S
        return found
