"""What an operator does: seal a plan, approve it, control a redrive. The job checks it again.

Plans are kept where `dlx dead-letters redrive` keeps them, so either can approve them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from streaming.console.page import Refused, View
from streaming.protocol.sealed_plan import SealedPlan, read_plan
from streaming.queries.redrives.edits import LetterEdit
from streaming.sentences import say
from streaming.user_folders import EDITS, plans_folder

if TYPE_CHECKING:
    from streaming.client import Channel

TIMEOUT_S: Final = 30.0
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


def keep_plan(plan: SealedPlan, edits: Sequence[LetterEdit] = ()) -> None:
    """Write a sealed plan under its id, and beside it what its edits change, for people."""
    folder = plans_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if edits:
        (folder / f"{plan.id}{EDITS}").write_bytes(msgspec.json.encode(edits))
    (folder / f"{plan.id}.json").write_bytes(plan.to_json())


def kept_edits(redrive_id: str) -> list[LetterEdit]:
    """What the edits of a plan change; empty if it has none, or was not made here."""
    try:
        data = (plans_folder() / f"{redrive_id}{EDITS}").read_bytes()
        return msgspec.json.decode(data, type=list[LetterEdit])
    except (OSError, msgspec.DecodeError):
        return []


def kept_plan(view: View, redrive_id: str) -> SealedPlan | None:
    """The plan of that id, if it is kept here and its vhost is one that the user may see."""
    file = plans_folder() / f"{redrive_id}.json"
    if not file.is_file():
        return None
    plan = read_plan(file.read_bytes(), str(file))
    return plan if plan.vhost in view.declared else None


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
