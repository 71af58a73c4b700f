"""The resources below `/api/dlx` of the management API."""

from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from streaming.broker.commands import ControlRedrive, Deployed, Redrive
from streaming.dlx_api import live
from streaming.dlx_api.answers import Deployment
from streaming.dlx_api.asking import Access, Ask, Role
from streaming.dlx_api.openapi import document
from streaming.dlx_api.questions import QUESTIONS, RAW, Question
from streaming.dlx_api.reading import Readers
from streaming.dlx_api.redrive_answers import RedriveNow
from streaming.dlx_api.request_bodies import Control, DeploymentNote, PlanWish
from streaming.management.access import ADMINISTRATORS, POLICYMAKERS
from streaming.management.answers import as_json, json_bytes
from streaming.management.bodies import MAX_BODY_BYTES
from streaming.management.errors import ApiError, bad_request, missing
from streaming.management.resources.doing import administer, do
from streaming.management.routing import (
    Asked,
    Handler,
    Resource,
    Rule,
    administrator,
    anyone,
    of_vhost,
    policymaker,
)
from topology.declarations import too_long

ROOT: Final = "dlx/"
MAX_BODY: Final = 65_536
"""The largest body, in bytes, other than a document of definitions."""


def dlx_resources(readers: Readers | None) -> list[Resource]:
    """The resources.

    Args:
        readers: answer from tables; None: there are none.
    """
    by_path: dict[str, list[Question]] = {}
    for question in QUESTIONS:
        by_path.setdefault(question.path, []).append(question)
    found = [Resource(f"{ROOT}openapi.json", anyone, {"GET": _openapi}, is_open=True)]
    for path, questions in by_path.items():
        handlers: dict[str, Handler] = {
            one.method: partial(_answer, one, readers) for one in questions
        }
        rules = {one.method: _rule(one) for one in questions}
        found.append(Resource(ROOT + path, anyone, handlers, rules, most_bytes=MAX_BODY_BYTES))
    return found


def _rule(question: Question) -> Rule:
    if "vhost" not in question.variables:
        return administrator if question.acts else anyone
    return policymaker if question.acts else of_vhost


async def _openapi(_asked: Asked) -> Any:
    return document()


async def _answer(question: Question, readers: Readers | None, asked: Asked) -> Response:
    values = _values(question, asked)
    body = _body(question, asked)
    if question.name == "deployed":
        return as_json(await _deployed(asked, body))
    if readers is None or question.name in live.LIVE:
        return as_json(await live.answer(question, asked, values, body))
    if question.name == "control":
        return as_json(await _control(asked, body))
    if question.name == "plan":
        values |= _wish(body)
    told = await readers.ask(_ask(question, asked, values))
    if told.error:
        raise ApiError(told.status, told.error, told.reason)
    if question.name == "approve":
        return as_json(await _approve(asked, told.parts))
    return json_bytes(told.document)


def _body(question: Question, asked: Asked) -> Any:
    """The body as its type; a document of definitions is read by whom it is for.

    Raises:
        ApiError: 400, it is not what is expected, or too large.
    """
    if question.body is None or question.body is RAW:
        return None
    if len(asked.body) > MAX_BODY:
        raise bad_request(f"a body may have {MAX_BODY} bytes here")
    try:
        return msgspec.json.decode(asked.body or b"{}", type=question.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise bad_request(str(error)) from None


def _values(question: Question, asked: Asked) -> dict[str, str]:
    """The parameters and variable parts of the path.

    Raises:
        ApiError: 400, a parameter is unknown or makes no sense; 404, a name is not text.
    """
    known = {one.name: one for one in question.parameters}
    unknown = sorted(set(asked.query) - set(known))
    if unknown:
        takes = ", ".join(known) or "none"
        raise bad_request(f"there is no parameter {unknown[0][:100]!r}; there are: {takes}")
    values = {}
    for name, value in asked.query.items():
        if not value.strip():
            continue
        fault = known[name].fault(value)
        if fault:
            raise bad_request(fault)
        values[name] = value
    lacking = [one.name for one in question.parameters if one.is_needed and one.name not in values]
    if lacking:
        raise bad_request(f"{lacking[0]}: is needed")
    values |= {name: asked.names[name] for name in question.variables}
    try:
        "".join(values.values()).encode()
    except UnicodeEncodeError:
        raise missing() from None
    return values


def _ask(question: Question, asked: Asked, values: dict[str, str]) -> Ask:
    user = asked.user.name
    access: dict[str, Access | None] = {}
    if not asked.has(ADMINISTRATORS):
        for name, vhost in asked.front.server.vhosts.items():
            found = vhost.shard.vhost.permissions.of(user)
            access[name] = None if found is None else (found.configure, found.write, found.read)
    role: Role = "viewer"
    if asked.has(POLICYMAKERS):
        role = "editor" if asked.has(ADMINISTRATORS) else "operator"
    return Ask(
        question.name,
        user,
        role,
        asked.has(ADMINISTRATORS),
        values,
        asked.body,
        access,
    )


def _wish(wish: PlanWish) -> dict[str, str]:
    """What a plan is wished like, as the console has it in its address."""
    found = msgspec.structs.asdict(wish)
    found["gone"] = "yes" if wish.gone else None
    return {name: value for name, value in found.items() if value}


async def _approve(asked: Asked, parts: list[bytes]) -> RedriveNow:
    """Let the broker move the letters of a plan."""
    vhost = asked.vhost
    found: dict[str, Any] = {}
    for part in parts:
        found = await do(asked, vhost, msgspec.json.decode(part, type=Redrive))
    return RedriveNow(id=asked.names["id"], **found)


async def _control(asked: Asked, control: Control) -> RedriveNow:
    redrive_id = asked.names["id"]
    command = ControlRedrive(id=redrive_id, action=control.action, reason=control.reason)
    return RedriveNow(id=redrive_id, **await do(asked, asked.vhost, command))


async def _deployed(asked: Asked, note: DeploymentNote) -> Deployment:
    """Note a deployment; ApiError 400 or 404, it makes no sense."""
    service = asked.names["service"]
    for text in (service, note.version):
        fault = too_long(text)
        if fault is not None:
            raise bad_request(f"{text[:40]!r} {fault}")
    queues, reason = tuple(note.queues), note.reason
    command = Deployed(service=service, version=note.version, queues=queues, reason=reason)
    await administer(asked, asked.vhost, command)
    return Deployment(service=service, version=note.version, queues=note.queues, reason=reason)
