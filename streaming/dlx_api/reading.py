"""Answers what `/api/dlx` asks of the tables, in child processes."""

import logging
from importlib.util import find_spec
from typing import Final

import msgspec

from streaming.child_processes.pool import (
    OF_USER,
    Child,
    Children,
    NoAnswerError,
    StoppedError,
    TooManyQuestionsError,
)
from streaming.dlx_api.asking import NO_TABLES, Ask, Settings, Told
from streaming.management.errors import ApiError

BUDGET_S: Final = 25.0
"""How long a process may take for an answer before it is killed."""

logger = logging.getLogger(__name__)


class Readers:
    """Answers questions from tables.

    Attributes:
        budget_s: how long an answer may take.
        children: the processes.
    """

    def __init__(self, settings: Settings) -> None:
        self.budget_s = BUDGET_S
        self.children = Children("streaming.dlx_api.child", settings)

    async def ask(self, ask: Ask) -> Told:
        """Answer a question.

        Raises:
            ApiError: 429, the user has too many questions; 503, it took too long, or the server
                ends; 409, packages are missing.
        """
        if find_spec("duckdb") is None:
            what = "the tables of the job need the extra job: pip install 'dlx-stream[job]'"
            raise ApiError(409, NO_TABLES, what)
        try:
            return await self.children.ask(
                ask.user, msgspec.msgpack.encode(ask), self.budget_s, _read
            )
        except TooManyQuestionsError:
            what = f"you have {OF_USER} questions that are not answered yet: wait for one"
            raise ApiError(429, "too_many_requests", what) from None
        except StoppedError:
            raise ApiError(503, "takes_too_long", "the server ends") from None
        except NoAnswerError as error:
            logger.warning("management: the process that reads the tables was ended: %s", error)
            what = (
                f"it took more than {self.budget_s:.0f} s, or too much memory: ask for less at once"
            )
            raise ApiError(503, "takes_too_long", what) from None

    async def stop(self) -> None:
        """End all processes."""
        await self.children.stop()


async def _read(child: Child) -> tuple[Told, bool]:
    told = msgspec.msgpack.decode(await child.receive(), type=Told)
    return told, told.is_last
