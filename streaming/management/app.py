"""The API as an ASGI application: each request, from its path to its answer."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streaming.amqp.login import User
from streaming.management import bert
from streaming.management.access import Gate
from streaming.management.answers import as_json, error_response
from streaming.management.bert import as_bert
from streaming.management.bodies import read_body
from streaming.management.conditions import answer_if
from streaming.management.counting import SAMPLE_MS, SAMPLE_S, Counting
from streaming.management.errors import ApiError, bad_request, missing
from streaming.management.listing import ORDER, PAGES, expect_ranges, narrowed, refuse_bare
from streaming.management.pacing import next_turn
from streaming.management.pages import Address, Pages
from streaming.management.port import Front
from streaming.management.resources.every import RESOURCES
from streaming.management.routing import MAX_PATH, NO_RANGE, Api, Asked, Resource, Resources

JSON: Final = "application/json"
MAX_QUERY: Final = 16_384
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""What RabbitMQ's web server knows."""

BODY_S: Final = 60.0
"""How long a body may take to arrive."""

logger = logging.getLogger(__name__)

_NOBODY: Final = User("")
_WEIGHT: Final = re.compile(r"(?:^|;)\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|$)")
_BYTES: Final = re.compile("[\ud800-\udfff]")
"""What stands in a name for bytes that are not UTF-8."""

_SERVER: Final = re.compile(rb"^https?://[^/?#]*", re.IGNORECASE)
"""What precedes the path if a proxy sends the whole address."""

_NO_FILE: Final = re.compile(rb"%(2f|5c|00)", re.IGNORECASE)
_NO_QUERY: Final = re.compile(rb"(?:^|&)=|%(?![0-9A-Fa-f]{2})")
"""A parameter without a name, and a percent sign without two digits."""


class Management:
    """The management API of a front.

    Args:
        listeners: name of the protocol, address and port of what the server listens on.
        counting: counts what happens; others may read it.
        more: resources beside those of RabbitMQ.
        console: where the console is, to which `/` leads; None: nowhere that is known.
    """

    def __init__(
        self,
        front: Front,
        listeners: Callable[[], list[tuple[str, str, int]]] = list,
        counting: Counting | None = None,
        more: Iterable[Resource] = (),
        console: Address | None = None,
    ) -> None:
        counting = counting or Counting()
        front.server.opened.append(counting.watch)
        for vhost in front.server.vhosts.values():
            counting.watch(vhost)
        self.api = Api(front, Gate(lambda: front.server.users), counting, listeners)
        resources = [*RESOURCES, *more]
        self._resources = Resources(resources)
        self._pages = Pages(resources, console)

    async def sample(self) -> None:
        """Take a sample now."""
        now_ms = self.api.front.now_ms()
        at_ms = now_ms - now_ms % SAMPLE_MS
        for _ in self.api.counting.sample(at_ms, self.api.front.server.vhosts):
            await asyncio.sleep(0)
        connections = list(self.api.front.server.connections)
        for _ in self.api.counting.sample_clients(at_ms, connections):
            await asyncio.sleep(0)

    async def keep_sampling(self) -> None:
        """Take a sample every five seconds, until it is cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ApiError as error:
            response = error_response(error)
        except Exception:
            logger.exception("management: %s %s", request.method, request.url.path)
            response = error_response(ApiError(500, "internal_server_error", "see the log"))
        if request.method == "HEAD":
            response.body = b""
        await next_turn()
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path") or request.url.path.encode()
        raw_path = _SERVER.sub(b"", raw_path)
        if len(raw_path) > MAX_PATH or len(request.scope["query_string"]) > MAX_QUERY:
            raise ApiError(414, "uri_too_long", "The address is too long")
        page = self._pages.at(raw_path, request)
        if page is not None:
            return page
        if request.method not in METHODS:
            raise ApiError(501)
        found = self._resources.find(raw_path)
        if found is None:
            return _nothing_there(request.method, raw_path)
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            raise ApiError(400, headers={"connection": "close"})  # two ends of one body
        why_not = self.api.front.not_serving()
        if why_not:
            raise ApiError(503, "not_serving", why_not)
        resource, names = found
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS":
            return Response(headers={"allow": resource.allowed})
        handler = resource.handler(request.method)
        if handler is None:
            raise ApiError(405, headers={"allow": resource.allowed})
        if method != "GET" and not _is_own_page(request):
            raise ApiError(403, "forbidden", "A page of another site may not change anything")
        asked = await self._asked(request, resource, method, names)
        await next_turn()
        answer = await answer_if(asked, resource.handlers.get("GET"), handler)
        if not isinstance(answer, Response):
            is_whole = method != "GET" or not resource.has_columns
            answer = as_json(answer if is_whole else narrowed(answer, asked.query))
        wanted = _wanted(request.headers.get("accept", ""), resource)
        return await as_bert(answer) if method == "GET" and wanted == bert.KIND else answer

    async def _asked(
        self, request: Request, resource: Resource, method: str, names: dict[str, str]
    ) -> Asked:
        user = _NOBODY if resource.is_open else self.api.gate.user(request)
        place = "" if request.client is None else request.client.host
        query = dict(reversed(request.query_params.multi_items()))  # the first of a name counts
        asked = Asked(self.api, method, user, names, query, request.headers, place, b"")
        if not resource.is_open:
            resource.refuse(asked)
        if method == "GET" and not _wanted(request.headers.get("accept", ""), resource):
            raise ApiError(406)
        if method == "GET" and _NO_QUERY.search(request.scope["query_string"]):
            raise ApiError(400)
        if method == "GET" and resource.no_range:
            expect_ranges(query, resource.no_range)
        if method == "GET":
            is_list = resource.no_range == NO_RANGE
            refuse_bare(request.scope["query_string"], PAGES | ORDER if is_list else PAGES)
        if method in {"GET", "DELETE"}:
            return asked
        if any(map(_BYTES.search, names.values())):
            raise bad_request("a name in the path is not UTF-8")
        if not resource.takes(request.headers.get("content-type")):
            raise ApiError(415)
        try:
            async with asyncio.timeout(BODY_S):
                body = await read_body(request, resource.most_bytes)
        except TimeoutError:
            raise bad_request("the request was not sent in time") from None
        return replace(asked, body=body)


def _nothing_there(method: str, raw_path: bytes) -> Response:
    """404 at a path that is none; RabbitMQ knows there that only reading could make sense.

    It looks for a file there, and answers 400 if the name of one would have a slash or the like.
    """
    allowed = {"allow": "HEAD, GET, OPTIONS"}
    if method == "OPTIONS":
        return Response(headers=allowed)
    if method not in {"GET", "HEAD"}:
        raise ApiError(405, headers=allowed)
    raise ApiError(400) if _NO_FILE.search(raw_path) else missing()


def _is_own_page(request: Request) -> bool:
    """Whether a request comes from no page, or from one of this address.

    A browser sends the user's password with each request, whoever made it.
    """
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _wanted(header: str, resource: Resource) -> str:
    """The type of the answer that a client wants most; empty if there is none of it.

    Of those that it wants alike RabbitMQ takes the most specific one, and of these the last.
    """
    kinds = [one.strip().lower() for one in header.split(",")] if header.strip() else ["*/*"]
    ranked = sorted(
        (-_weight(parameters), kind.count("*"), -number, kind.strip())
        for number, (kind, _, parameters) in enumerate(one.partition(";") for one in kinds)
    )
    for *_, kind in ranked:
        if kind in {"*/*", "application/*", JSON}:
            return JSON
        if kind == bert.KIND and resource.has_bert:
            return bert.KIND
    return ""


def _weight(parameters: str) -> float:
    """How much a client wants a type: the parameter `q`, else 1."""
    found = _WEIGHT.search(parameters)
    return 1.0 if found is None else float(found[1])
