"""What an operator does: seal a plan, approve it, control a redrive. The job checks it again.

Plans are kept where `dlx dead-letters redrive` keeps them, so either can approve them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streaming.broker.redrive_letters import RedriveOptions
from streaming.console.page import Refused, View
from streaming.protocol.sealed_plan import SealedPlan, read_plan
from streaming.user_folders import plans_folder
from topology.sentences import say

if TYPE_CHECKING:
    from streaming.client import Channel

TIMEOUT_S: Final = 30.0
MAX_LISTED: Final = 50
_ID: Final = re.compile(r"r-[0-9a-f]{12}")


def plan_id(view: View) -> str:
    """The id in the URL.

    Raises:
        Refused: it is not the id of a redrive.
    """
    given = view.text("id", "") or ""
    if not _ID.fullmatch(given):
        what = say(
            "id: expected the id of a redrive such as r-25d3a7490719, not %(given)s",
            given=repr(given),
        )
        raise Refused(400, what)
    return given


def kept_plan(view: View, redrive_id: str) -> SealedPlan | None:
    """The plan of that id, if it is kept here and its vhost is one that the user may see."""
    file = plans_folder() / f"{redrive_id}.json"
    if not file.is_file():
        return None
    plan = read_plan(file.read_bytes(), str(file))
    return plan if plan.vhost in view.declared else None


class KeptPlan(msgspec.Struct, frozen=True):
    """A sealed plan that is kept here.

    Attributes:
        chosen: the filter that chose the letters, for people.
        letters: how many.
    """

    id: str
    vhost: str
    made_at: str
    tables_id: str
    action: str
    chosen: dict[str, str]
    letters: int


class _Head(msgspec.Struct):
    """What a list shows of a plan; its letters are not looked at."""

    vhost: str
    made_at: str
    tables_id: str
    predicate: dict[str, Any]
    options: RedriveOptions
    letters: list[msgspec.Raw]


def kept_plans(view: View, known: Collection[str]) -> list[KeptPlan]:
    """The latest plans of these tables that are kept here, in the vhosts of the page.

    Args:
        known: ids of redrives; their plans are left out.
    """
    tables_id = str(view.tables.table("events").metadata().id)
    files = []
    for file in plans_folder().glob("r-*.json"):
        with suppress(OSError):  # it was thrown away meanwhile
            files.append((file.stat().st_mtime_ns, file))
    found = []
    for written_ns, file in sorted(files, reverse=True):
        plan = None if file.stem in known else _read(file, written_ns)
        if plan is not None and plan.tables_id == tables_id and view.sees(plan.vhost):
            found.append(plan)
        if len(found) == MAX_LISTED:
            break
    return found


@lru_cache(maxsize=1_000)
def _read(file: Path, _written_ns: int) -> KeptPlan | None:
    try:
        head = msgspec.json.decode(file.read_bytes(), type=_Head)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    chosen, action = chosen_by(head.predicate), head.options.action
    place = (head.vhost, head.made_at, head.tables_id)
    return KeptPlan(file.stem, *place, action, chosen, len(head.letters))


def chosen_by(predicate: Mapping[str, Any]) -> dict[str, str]:
    """The filter of a plan as people read it: `queue` work, `id` 1/0/42."""
    found = {}
    for name, value in predicate.items():
        match name, value:
            case "ids", list():
                found["id"] = ", ".join("/".join(map(str, one)) for one in value)
            case "headers", list():
                words = ((one if text is None else f"{one}={text}") for one, text in value)
                found["header"] = ", ".join(words)
            case _, bool():
                found[name] = "yes" if value else "no"
            case _:
                found[name] = str(value)
    return found


def reason_of(view: View) -> str:
    """The reason that a form gives.

    Raises:
        Refused: there is none.
    """
    reason = view.form.get("reason", "").strip()
    if not reason:
        raise Refused(400, say("Give a reason; it is kept with the redrive."))
    return reason


def number_of(view: View, name: str) -> int | None:
    """A whole number of a form from 1; None if it is blank.

    Raises:
        Refused: it is not one.
    """
    given = view.form.get(name, "").strip()
    if not given:
        return None
    if not (given.isascii() and given.isdecimal()) or not 0 < len(given) < 10 or not int(given):  # noqa: PLR2004
        what = say(
            "%(name)s: expected a whole number from 1, not %(given)s",
            name=name,
            given=repr(given[:40]),
        )
        raise Refused(400, what)
    return int(given)


@contextmanager
def job_channel(view: View, vhost: str) -> Iterator["Channel"]:
    """Connect to the job as the user of the page; its tables are closed before.

    Raises:
        Refused: the console does not know the job's configuration, or Kafka does not answer.
        ClientError: the job does not answer, or refuses.
    """
    from streaming.client import (  # noqa: PLC0415 - pages that only read need no Kafka
        Connection,
        KafkaUnreachableError,
    )

    if view.console.config is None:
        what = say("The console knows no job: start it with --config, or beside the job.")
        raise Refused(409, what)
    view.close()  # so that other pages need not wait
    try:
        with Connection.from_config(
            view.console.config, user=view.user.name, vhost=vhost, timeout_s=TIMEOUT_S
        ) as connection:
            yield connection.channel()
    except KafkaUnreachableError as error:
        what = say(
            "Kafka has not answered within %(seconds)s s. Ask again once it runs. What its client "
            "says: %(why)s",
            seconds=round(TIMEOUT_S),
            why=str(error),
        )
        raise Refused(503, what) from None
