"""The process that reads the tables for `/api/dlx`, within memory that the system limits.

It has a low priority: confirms of the front come first.

    python -m streaming.dlx_api.child < settings, questions > answers
"""

import copy
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from streaming.child_processes.frames import END, receive, send
from streaming.child_processes.memory_limit import limit_memory
from streaming.console.child import warm_up
from streaming.console.page import Console, Refused, View
from streaming.console.reader import BudgetError, Reader
from streaming.console.rights import User
from streaming.dlx_api.asking import NO_TABLES, Access, Ask, Settings, Told
from streaming.dlx_api.from_tables import ANSWERS
from streaming.queries.duckdb_tables import NoTableError, Tables
from streaming.queries.vhosts.declared import Declared
from topology.declarations import Permission
from topology.errors import DlxError

MAX_ANSWER: Final = 32 * 1024 * 1024
"""The largest answer, in bytes."""

POOL: Final = "200MB"
"""What DuckDB takes before it writes to temporary files."""

NICE: Final = 10
_WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    404: "not_found",
    409: "conflict",
    413: "too_large",
    503: "takes_too_long",
}

T = TypeVar("T")

logger = logging.getLogger(__name__)


class _View(View):
    """A question, with the permissions that count now."""

    def __init__(self, console: Console, ask: Ask) -> None:
        user = User(ask.user, ask.role, ask.administrator)
        super().__init__(console, user, "/", ask.values)
        self._access = ask.access

    def once(self, name: str, compute: Callable[[Tables], T]) -> T:
        """See `View`; what was computed under other permissions does not count."""
        return super().once(f"{name} {self._access}", compute)

    def with_permissions(self, declared: Mapping[str, Declared]) -> Mapping[str, Declared]:
        """See `View`; the tables lag behind the front."""
        return {
            name: _changed(each, self.user.name, self._access[name])
            if name in self._access
            else each
            for name, each in declared.items()
        }


def _changed(declared: Declared, user: str, access: Access | None) -> Declared:
    found = copy.copy(declared)
    found.permissions = dict(declared.permissions)
    found.permissions.pop(user, None)
    if access is not None:
        found.permissions[user] = Permission(user, *access)
    found.forget_model()
    return found


def answer(console: Console, ask: Ask) -> Told:
    """Answer a question; a failure is an answer as well."""
    try:
        with _View(console, ask) as view:
            view.require_vhost()
            return _told(ANSWERS[ask.name](view, ask.body))
    except Refused as error:
        status = 401 if error.status == 403 else error.status  # noqa: PLR2004 - as RabbitMQ does
        return Told(status, _WORDS.get(status, "refused"), str(error))
    except NoTableError as error:
        return Told(409, NO_TABLES, str(error))
    except BudgetError as error:
        return Told(503, _WORDS[503], str(error))
    except DlxError as error:
        return Told(400, _WORDS[400], str(error))
    except MemoryError:
        console.reader.is_exhausted = True
        return Told(503, _WORDS[503], "It needs too much memory: ask for less at once.")
    except Exception:
        logger.exception("management: %s could not be answered from the tables", ask.name)
        return Told(500, "internal_server_error", "see the log", is_last=True)


def _told(found: Any) -> Told:
    if isinstance(found, list):
        return Told(200, parts=found)
    document = msgspec.json.encode(found)
    if len(document) > MAX_ANSWER:
        what = f"The answer has more than {MAX_ANSWER} bytes: ask for smaller pages."
        raise Refused(413, what)
    return Told(200, document=document)


def main() -> None:
    """Answer questions until there are no more."""
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    os.nice(NICE)
    questions = sys.stdin.buffer
    first = receive(questions)
    if first is None:
        return
    settings = msgspec.msgpack.decode(first, type=Settings)
    console = Console(Reader(settings.root, settings.options, pool=POOL), ())
    warm_up(console.reader)
    limit_memory()
    send(told, END)  # it is ready
    while (question := receive(questions)) is not None:
        found = answer(console, msgspec.msgpack.decode(question, type=Ask))
        if console.reader.is_exhausted:
            found = msgspec.structs.replace(found, is_last=True)
        send(told, msgspec.msgpack.encode(found))
        if found.is_last:
            break


if __name__ == "__main__":
    main()
