"""Refuses to write where a job could not go on: it follows the log, and folds it on other terms."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from streaming.broker.sequence.log_fold import Terms
from streaming.sequencer.log_vhost import LogVhost
from topology.errors import DlxError

LISTEN_S: Final = 4.0
"""How long a front of other terms than the log listens for the job, which beats each second."""

_AGAIN_S: Final = 0.05


class OtherJobError(DlxError):
    """The job that follows a log folds it otherwise than this front would write it."""

    help_code = "log-terms"


async def listen_for_job(terms_of_job: Callable[[], Terms | None]) -> None:
    """Listen for the job that follows a log, if one does."""
    deadline_s = time.monotonic() + LISTEN_S
    while time.monotonic() < deadline_s:
        if terms_of_job() is not None:
            return
        await asyncio.sleep(_AGAIN_S)


def refuse_other_job(vhost: LogVhost, topic: str, there: Terms | None) -> None:
    """Do not begin where a job would plan a batch that no version can finish.

    Args:
        there: how the job folds the log; None: no job is heard, or it does not say.

    Raises:
        OtherJobError: a job follows the log that folds it otherwise.
    """
    here = vhost.terms
    if vhost.changes_terms and there is not None and there != here:
        raise OtherJobError(
            f"vhost {vhost.name}: the job that follows the log {topic} has "
            f"{_difference(there, here)}. Let it read the log to its end, stop it, and start one "
            "like this front before this front. Nothing was written"
        )


def _difference(there: Terms, here: Terms) -> str:
    """How the terms of a job differ from those of this front."""
    if there.core_version != here.core_version:
        return f"broker core {there.core_version}, and this front {here.core_version}"
    return f"settings that decide otherwise (hash {there.rules}, and {here.rules} here)"
