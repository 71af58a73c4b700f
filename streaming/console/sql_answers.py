"""Answers requests with SQL of users in child processes."""

import logging
import tempfile
from collections.abc import Iterator
from typing import IO, Final

import msgspec

from streaming.child_processes.pool import (
    OF_USER,
    Child,
    Children,
    NoAnswerError,
    StoppedError,
    TooManyQuestionsError,
)
from streaming.console.answering import Answered, Asked
from streaming.console.child import ChildSettings, Head
from streaming.console.page import Refused
from streaming.console.reader import BUDGET_S, MEMORY, BudgetError
from topology.sentences import say

GRACE_S: Final = 5.0
"""How much longer than its budget a child may take before it is killed."""

_KEPT_BYTES: Final = 4_000_000
"""Larger answers are kept in a temporary file until they are sent."""

_CHUNK: Final = 65_536

logger = logging.getLogger(__name__)


class SqlAnswers:
    """Answers requests in child processes.

    Attributes:
        budget_s: how long a child may take for an answer before it is killed.
        children: the processes.
    """

    def __init__(self, settings: ChildSettings) -> None:
        self.budget_s = BUDGET_S + GRACE_S
        self.children = Children("streaming.console.child", settings)

    async def answer(self, asked: Asked) -> Answered:
        """Compute an answer in a child.

        Raises:
            Refused: the user has too many queries, or the console ends.
            BudgetError: the query takes too much, and had to be ended.
        """
        question = msgspec.msgpack.encode(asked)
        try:
            head, body = await self.children.ask(asked.user.name, question, self.budget_s, _read)
        except TooManyQuestionsError:
            what = say(
                "You have %(count)s queries that are not answered yet: wait for one.",
                count=OF_USER,
            )
            raise Refused(429, what) from None
        except StoppedError:
            raise Refused(503, say("The console ends.")) from None
        except NoAnswerError:
            logger.warning("console: the process of a query has ended without an answer")
            raise BudgetError(
                say(
                    "the query took more than %(memory)s of memory or %(seconds)s s, so its "
                    "process was ended; narrow what it asks for",
                    memory=MEMORY,
                    seconds=round(BUDGET_S),
                )
            ) from None
        finally:
            await self.children.prepare()  # another one, if this was the last
        if head.is_file:
            return Answered(head.status, head.headers, file=_parts(body))
        with body:
            return Answered(head.status, head.headers, body.read())


async def _read(child: Child) -> tuple[tuple[Head, IO[bytes]], bool]:
    head = msgspec.msgpack.decode(await child.receive(), type=Head)
    body = tempfile.SpooledTemporaryFile(max_size=_KEPT_BYTES)  # noqa: SIM115 - it is returned
    try:
        while part := await child.receive():
            body.write(part)
    except BaseException:
        body.close()
        raise
    body.seek(0)
    return (head, body), head.is_last


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_CHUNK):
            yield part
