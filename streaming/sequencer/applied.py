"""Waits until a vhost on a log has applied what was submitted to it."""

import asyncio
from contextlib import suppress
from typing import Final

from streaming.amqp.entries import Then
from streaming.sequencer.log_vhost import LogVhost

_CHECK_S: Final = 0.25


async def is_applied(vhost: LogVhost) -> bool:
    """Wait until everything that was submitted is applied; False if it never is, here."""
    done = asyncio.Event()
    vhost.submit(Then(done.set))
    while vhost.leads and not done.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _CHECK_S)
    return done.is_set()
