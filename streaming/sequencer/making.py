"""Vhosts that are made and deleted while a front runs.

    PUT     list of made vhosts --> topic of the log --> this front leads it --> answer
    DELETE  list: ending --> its connections end --> it is emptied --> list: deleted

The list (`made_vhosts.py`) decides, whoever writes it: each front that serves all vhosts looks at
it, and so does the job. A front that ends in between is succeeded by one that finds the list so.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from streaming.broker.events import Actor
from streaming.config import JobConfig
from streaming.made_vhosts import MadeVhosts, State, with_vhosts
from streaming.sequencer.emptying import empty
from streaming.sequencer.front import Front
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.settings import (
    LogTopicError,
    prepare_topics,
    with_more_vhosts,
    without_vhost,
)
from streaming.sequencer.waiting import CannotLeadError
from topology.errors import DlxError

LOOK_S: Final = 2.0
"""How often a front looks at what others have made."""

SERVED_S: Final = 30.0
"""How long whoever makes or deletes a vhost waits for Kafka."""

_WAIT_S: Final = 0.02
_FRONT: Final = Actor(None, "vhost deletion")

logger = logging.getLogger(__name__)


class NotChangeableError(DlxError):
    """A vhost cannot be made or deleted here."""


class Making:
    """Makes and deletes vhosts of a front. Use it on the event loop.

    Args:
        config: names no vhost that was made.
        chosen: those that the front serves; none: each that is made, by whomever, too.
    """

    def __init__(
        self, front: Front, config: JobConfig, made: MadeVhosts, *, chosen: Collection[str] = ()
    ) -> None:
        self._front = front
        self._config = config
        self._made = made
        self._chosen = chosen
        self._one_change = asyncio.Lock()
        self._said: dict[str, str] = {}
        self._going: set[str] = set()
        self._turns: Counter[str] = Counter()
        front.may_lead = self._may_lead
        front.may_serve = self._may_serve

    async def start(self) -> None:
        """Serve what was made before, and follow what is made; without the list the front ends."""
        try:
            await self._keep_named()
            await self._follow(is_start=True)
        except (OSError, DlxError) as error:
            self._front.end(f"vhosts that were made at run time: {error}")
        else:
            self._front.run(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()

    async def _look(self) -> None:
        try:
            await self._follow()
        except (OSError, DlxError) as error:
            self._warn("", f"vhosts that were made at run time: {error}")

    async def _keep_named(self) -> None:
        """Note that what the configuration names by now is there: else it would be emptied later.

        That is, once the configuration does not name it any more.
        """
        named = self._config.log_topics().keys()
        for name in (await asyncio.to_thread(self._made.read)).keys() & named:
            await asyncio.to_thread(self._made.note, name, "there")

    async def _follow(self, *, is_start: bool = False) -> None:
        """Do as the list says."""
        async with self._one_change:
            new: list[str] = []
            for name, state in (await asyncio.to_thread(self._made.read)).items():
                if self.is_configured(name):
                    continue
                is_here = name in self._front.settings.logs
                if state == "deleted" and is_here:
                    await self._drop(name)
                elif state != "deleted" and not is_here:
                    if not self._chosen or name in self._chosen:
                        new.append(name)
                elif state == "ending" and (vhost := self._front.led(name)) is not None:
                    await self._end_later(vhost)
            if new:
                await self._add(new, is_made_here=None if is_start else False)

    async def _end_later(self, vhost: LogVhost) -> None:
        """Delete what another front has not deleted to the end; the next look tries it again."""
        try:
            await self._end(vhost, _FRONT)
        except (OSError, DlxError) as error:
            self._warn(vhost.name, f"vhost {vhost.name} is not deleted: {error}")

    async def _add(self, names: list[str], *, is_made_here: bool | None) -> None:
        """Serve further vhosts, with their topics.

        Args:
            is_made_here: see `Waiting`.

        Raises:
            DlxError: Kafka does not answer, or one of them cannot be named.
        """
        config = with_vhosts(self._config, names)
        settings = with_more_vhosts(self._front.settings, config, names)
        logs = {name: settings.logs[name] for name in names}
        await asyncio.to_thread(prepare_topics, config, replace(settings, logs=logs))
        for name in names:
            self._turns[name] += 1
            failed = partial(self._failed, name)
            self._front.add(settings, name, failed, is_made_here=is_made_here)

    async def _drop(self, name: str, *, is_deleted: bool = True) -> None:
        settings = without_vhost(self._front.settings, name)
        await self._front.drop(settings, name, is_deleted=is_deleted)

    def _failed(self, name: str, error: DlxError) -> None:
        """Let go of a vhost that cannot be served; it is tried again."""
        self._warn(name, str(error))
        self._let_go(name, is_deleted=False)

    def _let_go(self, name: str, *, is_deleted: bool) -> None:
        """Serve a vhost no more; the next look decides whether again."""
        self._front.run(self._let_go_of(name, self._turns[name], is_deleted=is_deleted))

    async def _let_go_of(self, name: str, turn: int, *, is_deleted: bool) -> None:
        async with self._one_change:
            if self.knows(name) and self._turns[name] == turn:
                await self._drop(name, is_deleted=is_deleted)

    def _warn(self, name: str, text: str) -> None:
        """Say something once."""
        if self._said.get(name) != text:
            logger.warning("%s", text)
        self._said[name] = text

    # -- for the management API

    def knows(self, name: str) -> bool:
        """Whether a vhost is there, served here or by another front."""
        return name in self._front.settings.logs

    def is_configured(self, name: str) -> bool:
        """Whether dlx.toml names the vhost."""
        return name in self._config.vhosts

    def is_going(self, name: str) -> bool:
        """Whether a vhost is being deleted here, or was."""
        return name in self._going

    def is_elsewhere(self, name: str) -> bool:
        """Whether another front serves a vhost now."""
        logs, settings = self._front.settings.logs, self._front.settings
        if name in self._front.server.vhosts or name not in logs:
            return False
        leader = self._front.leaders.of(name, logs[name])
        if leader is None or leader.beat.ends or leader.beat.name == settings.name:
            return False
        return time.monotonic() - leader.heard_s <= settings.takeover_ms / 1000

    def expect_makeable(self, name: str) -> None:
        """Refuse a vhost that cannot be made.

        Raises:
            DlxError: its name cannot be used, or this front makes none.
        """
        if self.knows(name):
            return
        if self.is_configured(name) and name not in self._config.log_topics():
            raise NotChangeableError(
                f"vhost '{name}' cannot be made: dlx.toml has it without sequenced = true, so it "
                "is not for AMQP clients"
            )
        if self._chosen:
            raise NotChangeableError(
                f"vhost '{name}' cannot be made here: this front serves chosen vhosts (--vhost). "
                "Ask one without"
            )
        with_vhosts(self._config, [name])

    async def make(self, name: str) -> bool:
        """Make a vhost, and wait until it is served here; whether it is new.

        Raises:
            DlxError: it cannot be made.
            OSError: not now; it may be made nevertheless.
        """
        is_new = await self._make(name)
        await self._until_served(name)
        return is_new

    async def _make(self, name: str) -> bool:
        async with self._one_change:
            if self.knows(name):
                return False  # somebody else has asked for it, too
            self.expect_makeable(name)
            states, version = await asyncio.to_thread(self._made.read_version)
            before = states.get(name)
            if before != "there":  # as it is if this front has not looked since it was made
                after: State = "there" if before is None else "again"
                await self._note_unless_overtaken(name, after, version)
            self._said.pop(name, None)
            self._going.discard(name)
            try:
                await self._add([name], is_made_here=before in {None, "deleted"})
            except LogTopicError as error:
                raise ConnectionError(str(error)) from error
        return before != "there"

    async def _note_unless_overtaken(self, name: str, state: State, version: int) -> None:
        if not await asyncio.to_thread(self._made.note, name, state, version=version):
            raise ConnectionError(
                f"vhost '{name}' is as it was: another front makes or deletes some now"
            )

    async def _until_served(self, name: str) -> None:
        deadline = asyncio.get_running_loop().time() + SERVED_S
        while name not in self._front.server.vhosts:
            if (why := self._said.get(name) or self._front.reason) is not None:
                raise ConnectionError(f"vhost '{name}' is not served: {why}")
            if not self.knows(name):
                raise ConnectionError(f"vhost '{name}' was deleted meanwhile")
            if self._front.is_ending:
                raise ConnectionError(f"vhost '{name}' is not served here: this front ends")
            if asyncio.get_running_loop().time() > deadline:
                raise ConnectionError(f"vhost '{name}' is not served after {SERVED_S:g} s")
            await asyncio.sleep(_WAIT_S)

    async def delete(self, name: str, by: Actor) -> None:
        """Delete a vhost that is served here, with everything in it; its connections end.

        Raises:
            DlxError: a file sets it, or something in it cannot be deleted.
            OSError: not now; it is deleted later if it is empty by then, or nobody can open it.
        """
        async with self._one_change:
            states, version = await asyncio.to_thread(self._made.read_version)
            if self.is_configured(name) or name not in states:
                raise NotChangeableError(
                    f"vhost '{name}' is set in dlx.toml: take it out there, and start the job and "
                    "dlx amqp"
                )
            vhost = self._front.server.vhosts.get(name)
            if not isinstance(vhost, LogVhost):
                raise ConnectionError(f"vhost '{name}' is not served here now")
            await self._note_unless_overtaken(name, "ending", version)
            self._going.add(name)
            await self._end(vhost, by)

    async def _may_lead(self, name: str) -> bool:
        """Look at the list before a vhost leads here: whoever has deleted it may make it again.

        Raises:
            CannotLeadError: it cannot be read.
        """
        if self.is_configured(name) or await self._state(name) != "deleted":
            return True
        self._let_go(name, is_deleted=True)
        return False

    async def _state(self, name: str) -> State | None:
        try:
            return (await asyncio.to_thread(self._made.read)).get(name)
        except OSError as error:
            raise CannotLeadError(f"vhost {name}: {error}") from error

    async def _may_serve(self, vhost: LogVhost) -> bool:
        """Look at the list again before clients may open a vhost that leads here.

        Raises:
            CannotLeadError: it cannot be read.
        """
        if self.is_configured(vhost.name):
            if not self._front.server.vhosts:  # clients come now: it is known what there is
                with suppress(TimeoutError):  # the storage may not answer
                    await asyncio.wait_for(self._look(), LOOK_S)
            return True
        state = await self._state(vhost.name)
        if state == "deleted":
            self._let_go(vhost.name, is_deleted=True)
        if state != "again":
            return state == "there"
        if not await empty(vhost, _FRONT):
            return False
        note = partial(self._made.note, vhost.name, "there", after="again")
        try:
            async with self._one_change:
                return await asyncio.to_thread(note)
        except OSError as error:
            raise CannotLeadError(f"vhost {vhost.name}: {error}") from error

    async def _end(self, vhost: LogVhost, by: Actor) -> None:
        name = vhost.name
        if self._front.server.vhosts.get(name) is vhost:  # it led before it was to be deleted
            self._front.server.delete_vhost(name)
        try:
            async with asyncio.timeout(SERVED_S):
                is_empty = await empty(vhost, by)
        except TimeoutError:
            raise ConnectionError(
                f"Kafka has not taken within {SERVED_S:g} s what empties vhost '{name}': nobody "
                "can open it, and it is deleted when Kafka answers"
            ) from None
        if not is_empty:
            raise ConnectionError(f"vhost '{name}' is led by another front, which deletes it")
        note = partial(self._made.note, name, "deleted", after="ending")
        is_deleted = await asyncio.to_thread(note)
        await self._drop(name, is_deleted=is_deleted)
        if not is_deleted:
            raise ConnectionError(f"vhost '{name}' was made again by another front meanwhile")
