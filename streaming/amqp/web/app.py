"""What a broker in memory shows over HTTP: a page for people, and JSON for tests in any language.

    GET  /                                     queues, bindings, messages now, and what died
    GET  /api/dlx/queues                       queues of all vhosts
    GET  /api/dlx/messages?vhost=/&queue=NAME  the ready messages of a queue
    GET  /api/dlx/deaths?vhost=/               every death, in order
    GET  /api/dlx/clock                        {"now_ms": ..., "manual": true}
    POST /api/dlx/clock                        {"advance": "30 minutes"}: let time pass;
                                               "patience": seconds that a consumer may need
    POST /api/dlx/definitions                  declare a definitions document
    POST /api/dlx/reset                        forget everything

A change needs the content type application/json, which no page of another site can send unasked.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from streaming.amqp.clocks import ManualClock, milliseconds, seconds_of_patience
from streaming.amqp.inspection import DeathRecord, HeldMessage, messages_in, queues_of
from streaming.amqp.manual_time import ManualTime
from streaming.amqp.memory import MemoryBroker
from streaming.amqp.vhosts import OpenVhost
from streaming.protocol.defaults import DEFAULT_VHOST
from topology.errors import InvalidTopologyError
from topology.values import table_to_json

MAX_MESSAGES: Final = 100
MAX_DEATHS: Final = 100
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The largest request that is read."""

_JSON: Final = "application/json"
_SHOWN_BYTES: Final = 200


class RequestError(Exception):
    """A request cannot be answered; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


def web_app(broker: MemoryBroker, hosts: list[str]) -> Starlette:
    """The application.

    Args:
        hosts: the names by which it may be asked.
    """
    pages = _Pages(broker)
    routes = [
        Route("/", _answered(pages.overview)),
        Route("/api/dlx/queues", _answered(pages.queues)),
        Route("/api/dlx/messages", _answered(pages.messages)),
        Route("/api/dlx/deaths", _answered(pages.deaths)),
        Route("/api/dlx/clock", _answered(pages.clock), methods=["GET", "POST"]),
        Route("/api/dlx/definitions", _answered(pages.definitions), methods=["POST"]),
        Route("/api/dlx/reset", _answered(pages.reset), methods=["POST"]),
    ]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    return Starlette(routes=routes, middleware=[trusted])


class _Json(JSONResponse):
    """JSON in ASCII: a name or body of a client may be text that UTF-8 cannot write."""

    def render(self, content: object) -> bytes:
        """Write the document."""
        return json.dumps(content).encode("ascii")


Page = Callable[[Request], Awaitable[Response]]


def _answered(page: Page) -> Page:
    """Answer a request that is refused with its status and text."""

    async def answer(request: Request) -> Response:
        try:
            return await page(request)
        except RequestError as error:
            return _Json({"error": error.text}, error.status)

    return answer


class _Pages:
    """The answers, by address."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        clock = broker.clock
        self._time = ManualTime(broker.server, clock) if isinstance(clock, ManualClock) else None
        environment = Environment(
            loader=PackageLoader("streaming.amqp.web"), autoescape=True, trim_blocks=True
        )
        environment.filters["time"] = _time
        self._template = environment.get_template("overview.html")

    async def overview(self, request: Request) -> Response:
        """The page for people."""
        vhost = self._vhost(request)
        queue = request.query_params.get("queue")
        messages = None if queue is None else self._messages(vhost, queue)
        bindings = [
            binding for binding in vhost.shard.vhost.router.bindings.all() if binding.source
        ]
        html = self._template.render(
            vhost=vhost.name,
            vhosts=sorted(self._broker.server.vhosts),
            queues=queues_of(vhost),
            bindings=bindings,
            queue=queue,
            messages=None if messages is None else [_shown(one) for one in messages],
            more=MAX_MESSAGES,
            deaths=[_death(one) for one in self._newest_deaths(vhost)],
            connections=sum(each.vhost is not None for each in self._broker.server.connections),
            now_ms=self._broker.clock.now_ms(),
            manual=self._time is not None,
        )
        policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    async def queues(self, _request: Request) -> Response:
        """The queues of all vhosts."""
        vhosts = sorted(self._broker.server.vhosts.items())
        return _Json(
            [
                {"vhost": name, **queue._asdict()}
                for name, vhost in vhosts
                for queue in queues_of(vhost)
            ]
        )

    async def messages(self, request: Request) -> Response:
        """The ready messages of a queue."""
        vhost = self._vhost(request)
        queue = request.query_params.get("queue", "")
        return _Json([_message(one) for one in self._messages(vhost, queue)])

    async def deaths(self, request: Request) -> Response:
        """Every death that is remembered."""
        deaths = self._broker.deaths[self._vhost(request).name].newest_last()
        return _Json([_death(one) for one in deaths])

    async def clock(self, request: Request) -> Response:
        """The time; a POST lets time pass."""
        if request.method == "POST":
            await self._advance(await _document(request))
        now_ms = self._broker.clock.now_ms()
        return _Json({"now_ms": now_ms, "manual": self._time is not None})

    async def _advance(self, document: dict[str, Any]) -> None:
        if self._time is None:
            raise RequestError(409, "the clock is the machine's: start with --clock manual")
        unknown = document.keys() - {"advance", "patience"}
        if unknown:
            what = "there are 'advance' and 'patience'"
            raise RequestError(400, f"unknown member {min(unknown)!r}; {what}")
        try:
            patience_s = seconds_of_patience(document.get("patience"))
        except ValueError as error:
            raise RequestError(400, str(error)) from None
        try:
            await self._time.advance(milliseconds(document.get("advance", 0)), patience_s)
        except ValueError as error:
            raise RequestError(400, f"advance: {error}") from None
        except TimeoutError as error:
            raise RequestError(409, str(error)) from None

    async def definitions(self, request: Request) -> Response:
        """Declare a definitions document."""
        document = await _document(request)
        try:
            self._broker.load_for_test(document)
        except InvalidTopologyError as error:
            raise RequestError(400, str(error)) from None
        return _Json({"skipped": [str(problem) for problem in self._broker.skipped]})

    async def reset(self, request: Request) -> Response:
        """Forget everything."""
        await _document(request)
        await self._broker.server.close_connections()
        self._broker.reset()
        return _Json({})

    def _vhost(self, request: Request) -> OpenVhost:
        name = request.query_params.get("vhost", DEFAULT_VHOST)
        vhost = self._broker.server.vhosts.get(name)
        if vhost is None:
            raise RequestError(404, f"no vhost '{name}'")
        return vhost

    def _messages(self, vhost: OpenVhost, queue: str) -> list[HeldMessage]:
        try:
            return messages_in(vhost, queue, MAX_MESSAGES)
        except KeyError:
            raise RequestError(404, f"no queue '{queue}' in vhost '{vhost.name}'") from None

    def _newest_deaths(self, vhost: OpenVhost) -> list[DeathRecord]:
        return self._broker.deaths[vhost.name].newest_last()[: -MAX_DEATHS - 1 : -1]


async def _document(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries; an empty body is an empty object."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
        raise RequestError(415, f"the content type must be {_JSON}")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise RequestError(413, f"a request may have at most {MAX_BODY_BYTES} bytes")
    try:
        document = json.loads(bytes(data) or b"{}")
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not JSON") from None
    if not isinstance(document, dict):
        raise RequestError(400, "the body is not a JSON object")
    return document


def _message(message: HeldMessage) -> dict[str, Any]:
    return {
        "body": _text(message.body),
        "body_base64": base64.b64encode(message.body).decode("ascii"),
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "properties": message.properties,
        "headers": table_to_json(message.headers),
    }


def _shown(message: HeldMessage) -> dict[str, Any]:
    deaths = [
        f"{death['reason']} in {death['queue']} ({death['count']} times)"
        for death in message.x_death
    ]
    body = _text(message.body[:_SHOWN_BYTES])
    return {"body": body, "message_id": message.message_id or "", "deaths": deaths}


def _death(death: DeathRecord) -> dict[str, Any]:
    return {
        "at_ms": death.at_ms,
        "queue": death.queue,
        "reason": death.reason,
        "body": _text(death.body[:_SHOWN_BYTES]),
        "message_id": death.properties.get("message_id"),
        "targets": list(death.targets),
        "outcome": death.outcome,
    }


def _text(body: bytes) -> str:
    return body.decode("utf-8", "backslashreplace")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
