"""Redrives: what was sent back and what became of it; plan one, edit, approve and control it."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from streaming.broker.redrive_letters import RedriveOptions
from streaming.console.forms.edits import (
    ContentForm,
    content_form,
    edit_of_many,
    edit_of_one,
    wants_edit,
)
from streaming.console.forms.job import (
    chosen_by,
    job_channel,
    kept_plan,
    kept_plans,
    number_of,
    plan_id,
    reason_of,
)
from streaming.console.forms.letters import kept, letters_filter, options_of
from streaming.console.page import PAGE_ROWS, Answer, Redirect, Refused, View
from streaming.console.pages.now import all_waiting
from streaming.console.queue_marks import stale_s
from streaming.protocol.redrive_json import ACTIONS, EXPIRATIONS, X_DEATHS
from streaming.protocol.sealed_plan import SealedPlan
from streaming.queries.dead_letters.filters import DeadLetterFilter
from streaming.queries.dead_letters.groups import dead_letter_groups
from streaming.queries.duckdb_tables import QueryError
from streaming.queries.redrives.edits import LetterEdit
from streaming.queries.redrives.forecast import NO_CONSUMER
from streaming.queries.redrives.kept_plans import (
    keep_plan,
    kept_edits,
    kept_forecast,
    kept_risks,
    remove_plan,
)
from streaming.queries.redrives.outcomes import list_redrives, outcome_of
from streaming.queries.redrives.plan import (
    Destination,
    RedrivePlan,
    RedriveWish,
    content_of_letter,
    count_letters,
    plan_redrive,
)
from streaming.queries.vhosts.clients import consumer_counts
from topology.errors import DlxError
from topology.sentences import said, say

TYPED_ABOVE: Final = 100
"""A plan of more letters is approved by typing their number."""

MAX_LETTERS: Final = 200_000
SHOWN_EDITS: Final = 50
DESTINATIONS: Final[tuple[Destination, ...]] = get_args(Destination)
CONTROLS: Final = ("pause", "resume", "cancel")
_TITLES: Final = {
    "redrive": say("Redrive dead letters"),
    "publish": say("Publish dead letters again"),
    "discard": say("Discard dead letters"),
    "restore": say("Restore discarded letters"),
}
_RATES: Final = ("rate", "ceiling", "canary", "stop_after", "stop_percent")
_PLACE: Final = ("queue", "reason")
"""Parameters of the filter that choose where and why letters died; others narrow that."""

_WISHES: Final = ("action", "to", "name", "key", "expiration", "x_death", "gone")


def redrives(view: View) -> Answer:
    """List the redrives, the latest first, and above them the plans that nobody has approved."""
    view.command = view.dlx("redrives", "list")
    rows = [row for row in list_redrives(view.tables, view.vhost) if view.sees(row["vhost"])]
    first = (view.page - 1) * PAGE_ROWS
    known = {row["id"] for row in rows}
    return {
        "rows": rows[first : first + PAGE_ROWS],
        "total": len(rows),
        "size": PAGE_ROWS,
        "plans": kept_plans(view, known) if view.as_of is None and view.page == 1 else [],
        "may_act": view.may("operator"),
    }


def redrive_plan(view: View) -> Mapping[str, Any]:
    """Show what a redrive of the letters of a search would do now; nothing moves."""
    wish = wish_of(view)
    is_again = wish.gone and wish.options.action == "redrive"
    view.title = _TITLES["publish" if is_again else wish.options.action]
    view.command = view.dlx(
        *("dead-letters", wish.options.action),
        *options_of(view, has_ids=True),
        *_words(view),
        as_of=False,
    )
    found = None if view.as_of is not None else planned(view, wish)
    count = 0 if found is None else len(found.sealed.letters)
    can_edit = view.may("editor") and wish.options.action == "redrive"
    deaths = others = 0
    if found is not None and not count:
        groups = dead_letter_groups(view.tables, wish.wanted, ["reason"])
        deaths = sum(row["deaths"] for row in groups)
        if deaths and wish.options.action == "redrive":
            other = planned(view, msgspec.structs.replace(wish, gone=not wish.gone))
            others = len(other.sealed.letters)
    return {
        "plan": found,
        "letters_count": count,
        "whole": 0 if found is None else _whole(view, wish),
        "whole_plan": {
            **{name: one for name, one in kept(view).items() if name in _PLACE},
            **_chosen(view),
        },
        "only_since": view.instant("since") if {*kept(view)} <= {*_PLACE, "since"} else None,
        "deaths_found": deaths,
        "others": others,
        "stale_s": stale_s(view),
        "approve_command": _approve_command(view, "ID"),
        "consumers": [] if found is None else _consumers(view, found.sealed),
        "can_edit": can_edit,
        "content": _content(view, wish) if can_edit and count == 1 else None,
        "kept": {**kept(view), **_chosen(view)},
        "wish_is_changed": bool(_chosen(view).keys() - {"gone"}),
        "search": kept(view),
        "wish": wish,
        "destinations": DESTINATIONS,
        "to": _destination(view),
        "expirations": EXPIRATIONS,
        "deaths": X_DEATHS,
        "actions": ACTIONS,
        "may_act": view.may("operator"),
        "knows_job": view.console.config is not None,
        "shown": "" if found is None else _digest(found.sealed),
        "typed_above": TYPED_ABOVE,
        "fault": "",
    }


def send_redrive(view: View) -> Answer:
    """Make the plan that was shown, seal it and approve it, with the user and a reason.

    If that fails, the form is shown again, as it was filled in, with what went wrong.
    """
    try:
        wish = wish_of(view)
        plan = planned_letters(view, wish)
        sealed = plan.sealed
        if _digest(sealed) != view.form.get("shown"):
            what = say("Meanwhile other letters match. This is the plan of now: look at it again.")
            raise Refused(409, what)
        _require_confirmed(view, sealed)
    except DlxError as error:
        view.close()  # a condition of the user's has locked them
        view.path, view.template = "/redrive/plan", "redrive_plan.html"
        view.status = error.status if isinstance(error, Refused) else 400
        return {**redrive_plan(view), "fault": said(error)}
    keep_plan(plan)
    return _approved(view, sealed)


def _whole(view: View, wish: RedriveWish) -> int:
    """How many letters the same plan of a queue and reason has without narrower filters.

    0: the search has no narrower filter, or names its letters.
    """
    given = kept(view).keys()
    if "id" in given or not given & {*_PLACE} or not given - {*_PLACE}:
        return 0
    wanted = wish.wanted
    wider = DeadLetterFilter(
        vhost=wanted.vhost,
        queue=wanted.queue,
        reason=wanted.reason,
        where=None if "where" in given else wanted.where,
    )
    return count_letters(view.tables, msgspec.structs.replace(wish, wanted=wider), view.declared)


def _digest(sealed: SealedPlan) -> str:
    """What two plans have in common that do the same to the same letters."""
    same = msgspec.json.encode([sealed.vhost, sealed.options, sealed.letters])
    return hashlib.sha256(same).hexdigest()


def seal_plan(view: View) -> Answer:
    """Make the plan, with the edits of the form, and keep it, sealed."""
    if view.as_of is not None:
        what = say("A plan is about what is in the queues now: go back to live first.")
        raise Refused(400, what)
    wish = wish_of(view)
    if wants_edit(view):
        is_one = "content" in view.form
        original = content_of_letter(view.tables, wish) if is_one else None
        edit = edit_of_many(view) if original is None else edit_of_one(view, original)
        wish = msgspec.structs.replace(wish, edit=edit)
    found = planned_letters(view, wish)
    if wish.edit is not None and not found.edits:
        raise Refused(400, say("The edit changes no letter of the plan, so no plan was made."))
    keep_plan(found)
    return Redirect(view.url("/redrive", id=found.sealed.id))


def redrive(view: View) -> Mapping[str, Any]:
    """Show one redrive: its sealed plan until it is approved, then its progress and outcome."""
    return _shown(view, plan_id(view))


def _shown(view: View, redrive_id: str) -> Mapping[str, Any]:
    view.title = say("Redrive %(id)s", id=redrive_id)
    sealed = kept_plan(view, redrive_id)
    try:
        outcome = outcome_of(view.tables, redrive_id, view.vhost)
    except QueryError:
        outcome = None
    if outcome is not None and not view.sees(outcome.redrive["vhost"]):
        outcome = None
    if outcome is None and sealed is None:
        what = say("There is no redrive or plan %(id)s that you may see.", id=repr(redrive_id))
        raise Refused(404, what)
    if outcome is not None:
        view.command = view.dlx("redrives", "show", redrive_id)
    else:
        view.command = _approve_command(view, redrive_id)
    letters = [] if outcome is None else outcome.letters
    first = (view.page - 1) * PAGE_ROWS
    targets: Counter[tuple[str, str]] = Counter()
    for letter in () if sealed is None else sealed.letters:
        goal = letter.target
        there = say("removed") if goal is None else goal.queue or _exchange(goal.exchange)
        targets[letter.queue, there] += 1
    return {
        "redrive_id": redrive_id,
        "sealed": sealed,
        "count": 0 if sealed is None else len(sealed.letters),
        "chosen": {} if sealed is None else chosen_by(sealed.predicate),
        "targets": targets.most_common(PAGE_ROWS),
        "unconsumed": _unconsumed(view, sealed) if outcome is None and sealed is not None else [],
        "edits": _edits(view, sealed) if sealed is not None else [],
        "edited": 0 if sealed is None else sum(one.edit is not None for one in sealed.letters),
        "expected": _expected(redrive_id) if outcome is None else {},
        "risks": kept_risks(redrive_id) if outcome is None else [],
        "stale_s": stale_s(view),
        "knows_job": view.console.config is not None,
        "control_command": "" if outcome is None else _control_command(view, outcome.redrive),
        "outcome": outcome,
        "fates": Counter((one["fate"], one["reason"] or "") for one in letters).most_common(),
        "letters_shown": letters[first : first + PAGE_ROWS],
        "total": len(letters),
        "size": PAGE_ROWS,
        "typed_above": TYPED_ABOVE,
        "may_act": view.may("operator"),
        "sent": view.one_of("sent", "", "yes"),
        "fault": "",
    }


def _expected(redrive_id: str) -> dict[str, int]:
    """What a plan expected when it was made, without who consumes: the page says that of now."""
    found = kept_forecast(redrive_id)
    return {what: count for what, count in found.items() if what != NO_CONSUMER}


def _approve_command(view: View, redrive_id: str) -> str:
    words = ("redrives", "approve", redrive_id, "--reason", "why")
    return view.dlx(*words, vhost=False, as_of=False, tables=False)


def _control_command(view: View, one: Mapping[str, Any]) -> str:
    """The command that stops a redrive, or lets it go on."""
    action = "pause" if one["status"] == "running" else "resume"
    words = ("redrives", action, one["id"], "--vhost", one["vhost"], "--reason", "why")
    return view.dlx(*words, vhost=False, as_of=False, tables=False)


def _exchange(name: str) -> str:
    return say("exchange %(name)s", name=name or say("(default)"))


def _unconsumed(view: View, sealed: SealedPlan) -> list[str]:
    """The queues that letters of a plan go to and that nobody consumes."""
    return [queue for queue, count in _consumers(view, sealed) if not count]


def _consumers(view: View, sealed: SealedPlan) -> list[tuple[str, int]]:
    """How many consume from each queue that letters of a plan go to."""
    goals = {one.target.queue for one in sealed.letters if one.target and one.target.queue}
    counts = view.once("consumers", consumer_counts)
    return [(queue, counts.get((sealed.vhost, queue), 0)) for queue in sorted(goals)]


def _edits(view: View, sealed: SealedPlan) -> list[LetterEdit]:
    """What the edits change, for someone who may read all letters that they are of."""
    queues = {one.queue for one in sealed.letters if one.edit is not None}
    if not all(view.may_read(sealed.vhost, one) for one in queues):
        return []
    return kept_edits(sealed.id)[:SHOWN_EDITS]


def approve_redrive(view: View) -> Answer:
    """Send a sealed plan to the job, with the user and a reason.

    If that fails, the form is shown again, as it was filled in, with what went wrong.
    """
    redrive_id = plan_id(view)
    sealed = kept_plan(view, redrive_id)
    if sealed is None:
        what = say("There is no plan %(id)s that you may see: make a new one.", id=repr(redrive_id))
        raise Refused(404, what)
    return _approved(view, sealed)


def _approved(view: View, sealed: SealedPlan) -> Answer:
    try:
        _approve(view, sealed)
    except DlxError as error:
        return _again(view, sealed.id, error)
    return Redirect(view.url("/redrive", id=sealed.id, sent="yes", vhost=sealed.vhost))


def _require_confirmed(view: View, sealed: SealedPlan) -> str:
    """Return the reason that the form gives; the number of many letters must be typed."""
    reason, count = reason_of(view), len(sealed.letters)
    if count > TYPED_ABOVE and view.form.get("count", "").strip() != str(count):
        what = say(
            "The plan has %(count)s letters: type %(count)s to approve it.", count=str(count)
        )
        raise Refused(400, what)
    return reason


def _approve(view: View, sealed: SealedPlan) -> None:
    reason = _require_confirmed(view, sealed)
    rates = {name: number_of(view, name) for name in _RATES}
    options = msgspec.structs.replace(sealed.options, **{**rates, "canary": rates["canary"] or 0})
    with job_channel(view, sealed.vhost) as channel:
        channel.approve_redrive(sealed, reason, options)


def _again(view: View, redrive_id: str, error: DlxError) -> Answer:
    """The page of the redrive, with what went wrong and the form as it was filled in."""
    view.close()
    view.path, view.template = "/redrive", "redrive.html"
    view.status = error.status if isinstance(error, Refused) else 400
    return {**_shown(view, redrive_id), "fault": said(error)}


def forget_plan(view: View) -> Answer:
    """Throw a sealed plan away; no letter has moved by it."""
    redrive_id = plan_id(view)
    if kept_plan(view, redrive_id) is None:
        what = say("There is no plan %(id)s that you may see.", id=repr(redrive_id))
        raise Refused(404, what)
    remove_plan(redrive_id)
    return Redirect(view.url("/redrives"))


def control_redrive(view: View) -> Answer:
    """Pause, resume or cancel a redrive, with a reason."""
    redrive_id, action = plan_id(view), view.form.get("action", "")
    if action not in CONTROLS:
        what = say(
            "action: expected %(known)s, not %(given)s",
            known=", ".join(CONTROLS),
            given=repr(action[:40]),
        )
        raise Refused(400, what)
    vhost = outcome_of(view.tables, redrive_id, view.vhost).redrive["vhost"]
    if not view.sees(vhost):
        what = say("There is no redrive %(id)s that you may see.", id=repr(redrive_id))
        raise Refused(404, what)
    try:
        reason = reason_of(view)
        with job_channel(view, vhost) as channel:
            channel.control_redrive(redrive_id, action, reason)
    except DlxError as error:
        return _again(view, redrive_id, error)
    return Redirect(view.url("/redrive", id=redrive_id, vhost=vhost))


def wish_of(view: View) -> RedriveWish:
    """What the URL wants to be planned."""
    destination = _destination(view)
    name = view.text("name")
    if destination in {"queue", "exchange"} and name is None:
        destination = "died"
    options = RedriveOptions(
        action=view.one_of("action", *ACTIONS),
        expiration=view.one_of("expiration", *EXPIRATIONS),
        x_death=view.one_of("x_death", *X_DEATHS),
    )
    return RedriveWish(
        wanted=letters_filter(view),
        gone=view.text("gone") == "yes",
        destination=next(one for one in DESTINATIONS if one == destination),
        name=name or "",
        routing_key=view.text("key") if destination == "exchange" else None,
        options=options,
        user=None if view.user.administrator else view.user.name,
        only_readable=True,
        editors=(view.user.name,) if view.may("editor") else (),  # the job has the last word
        most=MAX_LETTERS,
    )


def planned(view: View, wish: RedriveWish) -> RedrivePlan:
    """Make the plan; one of everything that waits is refused before it is made if it is too large.

    Raises:
        Refused: it has too many letters.
    """
    everything = DeadLetterFilter(vhost=wish.wanted.vhost)
    if wish.wanted == everything and not wish.gone and wish.options.action != "restore":
        count = sum(one.count for one in all_waiting(view) if view.sees(one.vhost))
        if count > MAX_LETTERS:
            what = say(
                "%(count)s letters are more than %(most)s: narrow the search first.",
                count=count,
                most=MAX_LETTERS,
            )
            raise Refused(413, what)
    return plan_redrive(view.tables, wish, view.declared)


def planned_letters(view: View, wish: RedriveWish) -> RedrivePlan:
    """Make a plan that moves something; see `planned`."""
    found = planned(view, wish)
    if not found.sealed.letters:
        what = say("There is nothing to move: no letter of the search rests in a queue.")
        raise Refused(409, what)
    return found


def _content(view: View, wish: RedriveWish) -> ContentForm | None:
    """The only letter for an editor; None if its body is not stored any more."""
    try:
        return content_form(content_of_letter(view.tables, wish))
    except QueryError:
        return None


def _chosen(view: View) -> dict[str, str]:
    found = {name: view.text(name) for name in _WISHES}
    return {name: value for name, value in found.items() if value is not None}


def _destination(view: View) -> str:
    """The destination that is chosen; letters that are named by their ids go where they first died.

    Others are found by one of their deaths, so they go back to where that was.
    """
    is_named = view.text("id") is not None and view.text("queue") is None
    return view.one_of("to", *(("first", *DESTINATIONS) if is_named else DESTINATIONS))


def _words(view: View) -> list[str]:
    """The options of `dlx dead-letters redrive` beside the filter."""
    wish = _chosen(view)
    if wish.get("action", "redrive") != "redrive":
        return []
    words = ["--gone"] if wish.get("gone") == "yes" else []
    name = wish.get("name")
    match _destination(view):
        case "original":
            words.append("--to-origin")
        case "first":
            words.append("--to-first")
        case "queue" if name:
            words += ["--to", name]
        case "exchange" if name:
            words += ["--to-exchange", name]
            words += ["--to-key", wish["key"]] if "key" in wish else []
    for option in ("expiration", "x_death"):
        if option in wish:
            words += [f"--{option.replace('_', '-')}", wish[option]]
    return words
