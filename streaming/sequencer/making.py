"""Vhosts that are made and deleted while a front runs.

    PUT     list of made vhosts --> topic of the log --> this front leads it --> answer
    DELETE  list: ending --> its connections end --> it is emptied --> list: deleted

The list (`made_vhosts.py`) decides, whoever writes it: each front that serves all vhosts looks at
it, and so does the job. A front that ends in between is succeeded by one that finds the list so.
"""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Final

from streaming.broker.events import Actor
from streaming.config import JobConfig
from streaming.made_vhosts import MadeVhosts, with_vhosts
from streaming.sequencer.emptying import empty
from streaming.sequencer.front import Front
from streaming.sequencer.log_vhost import LogVhost
from streaming.sequencer.settings import (
    LogTopicError,
    prepare_topics,
    with_vhost,
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
        takes_new: whether the front serves each vhost that is made, by whomever.
    """

    def __init__(
        self, front: Front, config: JobConfig, made: MadeVhosts, *, takes_new: bool
    ) -> None:
        self._front = front
        self._config = config
        self._made = made
        self._takes_new = takes_new
        self._one_change = asyncio.Lock()
        self._said: dict[str, str] = {}
        self._going: set[str] = set()
        front.may_serve = self._may_serve

    async def start(self) -> None:
        """Serve what was made before, and follow what is made; without the list the front ends."""
        if not self._takes_new:
            return
        try:
            await self._follow()
        except (OSError, DlxError) as error:
            self._front.end(f"vhosts that were made at run time: {error}")
        else:
            self._front.run(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._follow()
            except (OSError, DlxError) as error:
                self._warn("", f"vhosts that were made at run time: {error}")

    async def _follow(self) -> None:
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
                    new.append(name)
                elif state == "ending" and (vhost := self._front.led(name)) is not None:
                    await self._end(vhost, _FRONT)
            if new:
                await self._add(new)

    async def _add(self, names: list[str]) -> None:
        """Serve further vhosts, with their topics.

        Raises:
            DlxError: Kafka does not answer, or one of them cannot be named.
        """
        config, settings = with_vhosts(self._config, names), self._front.settings
        for name in names:
            settings = with_vhost(settings, config, name)
        logs = {name: settings.logs[name] for name in names}
        await asyncio.to_thread(prepare_topics, config, replace(settings, logs=logs))
        for name in names:
            settings = with_vhost(self._front.settings, config, name)
            self._front.add(settings, name, partial(self._failed, name))

    async def _drop(self, name: str) -> None:
        await self._front.drop(without_vhost(self._front.settings, name), name)

    def _failed(self, name: str, error: DlxError) -> None:
        """Let go of a vhost that cannot be served; it is tried again."""
        self._warn(name, str(error))
        self._front.run(self._let_go(name))

    async def _let_go(self, name: str) -> None:
        async with self._one_change:
            if self.knows(name):
                await self._drop(name)

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

    def expect_makeable(self, name: str) -> None:
        """Refuse a vhost that cannot be made.

        Raises:
            DlxError: its name cannot be used, or this front makes none.
        """
        if not self._takes_new:
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
        async with self._one_change:
            if self.knows(name):
                return False
            self.expect_makeable(name)
            before = await asyncio.to_thread(self._made.read)
            await asyncio.to_thread(self._made.note, name, "again" if name in before else "there")
            self._said.pop(name, None)
            self._going.discard(name)
            try:
                await self._add([name])
            except LogTopicError as error:
                raise ConnectionError(str(error)) from error
        await self._until_served(name)
        return True

    async def _until_served(self, name: str) -> None:
        deadline = asyncio.get_running_loop().time() + SERVED_S
        while name not in self._front.server.vhosts:
            if (why := self._said.get(name) or self._front.reason) is not None:
                raise ConnectionError(f"vhost '{name}' is not served: {why}")
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
            states = await asyncio.to_thread(self._made.read)
            if self.is_configured(name) or name not in states:
                raise NotChangeableError(
                    f"vhost '{name}' is set in dlx.toml: take it out there, and start the job and "
                    "dlx amqp"
                )
            vhost = self._front.server.vhosts.get(name)
            if not isinstance(vhost, LogVhost):
                raise ConnectionError(f"vhost '{name}' is not served here now")
            await asyncio.to_thread(self._made.note, name, "ending")
            self._going.add(name)
            if self._front.server.vhosts.get(name) is vhost:
                self._front.server.delete_vhost(name)
            await self._end(vhost, by)

    async def _may_serve(self, vhost: LogVhost) -> bool:
        """Look at the list again before clients may open a vhost that leads here.

        Raises:
            CannotLeadError: it cannot be read.
        """
        if self.is_configured(vhost.name):
            return True
        try:
            state = (await asyncio.to_thread(self._made.read)).get(vhost.name)
            if state == "again":
                if not await empty(vhost, _FRONT):
                    return False
                await asyncio.to_thread(self._made.note, vhost.name, "there")
        except OSError as error:
            raise CannotLeadError(f"vhost {vhost.name}: {error}") from error
        return state in {"there", "again"}

    async def _end(self, vhost: LogVhost, by: Actor) -> None:
        try:
            async with asyncio.timeout(SERVED_S):
                is_empty = await empty(vhost, by)
        except TimeoutError:
            raise ConnectionError(
                f"Kafka has not taken within {SERVED_S:g} s what empties vhost '{vhost.name}': "
                "nobody can open it, and it is deleted when Kafka answers"
            ) from None
        if not is_empty:
            raise ConnectionError(f"vhost '{vhost.name}' is led by another front, which deletes it")
        await asyncio.to_thread(self._made.note, vhost.name, "deleted")
        await self._drop(vhost.name)
