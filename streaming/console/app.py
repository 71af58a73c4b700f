"""The console's pages, and what every request goes through.

host --> who --> (an action: from an own page, role) --> a page's function on a thread --> HTML
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.console.all_pages import PAGES
from streaming.console.answering import Answered, Answering, Asked
from streaming.console.attempts import TooManyAttemptsError
from streaming.console.child import ChildSettings
from streaming.console.languages import Language
from streaming.console.live import Live
from streaming.console.logins import Guard
from streaming.console.page import Console, Page, Refused
from streaming.console.rendering import HERE
from streaming.console.shared import SharedPages
from streaming.console.sql_answers import SqlAnswers
from streaming.console.token import TOKEN
from streaming.console.turns import Turns
from topology.errors import DlxError
from topology.sentences import said, say

MAX_FORM_BYTES: Final = 2_000_000
MAX_HEADER_BYTES: Final = 64_000
FORM_S: Final = 30.0
"""How long a form may take to arrive."""

SQL: Final = "/sql"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),  # with no-referrer, forms would send the origin "null"
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)


__all__ = ["MAX_HEADER_BYTES", "PAGES", "make_app"]


def make_app(console: Console, guard: Guard, patience_s: float | None = None) -> Starlette:
    """Return the application that serves the pages; its `state.live` has the streams of events.

    Args:
        patience_s: how long a browser waits for a page before it is told that it is computed;
            None: until it is ready.
    """
    live = Live(console.reader)
    site = _Site(console, guard, live, patience_s)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await live.close()
        await site.close()

    async def events(request: Request) -> Response:
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        known = int(since) if since.isascii() and since.isdecimal() and len(since) < 19 else None  # noqa: PLR2004
        return StreamingResponse(
            live.stream(known),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    routes = [
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/events", events),
        Route("/logout", site.log_out, methods=["POST"]),
        *(
            Route(
                page.path, partial(site.answer, page), methods=["POST" if page.is_action else "GET"]
            )
            for page in console.pages
        ),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(_Gate, guard=guard, site=site)],
        exception_handlers={404: site.not_found, 405: site.wrong_method},
    )
    app.state.live = live
    return app


class _Gate:
    """Lets known users with known hosts in, and sets the headers of every response."""

    def __init__(self, app: ASGIApp, guard: Guard, site: "_Site") -> None:
        self._app = app
        self._guard = guard
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                _secure(message, request)
            await send(message)

        refusal = await self._refusal(request)
        await (self._app if refusal is None else refusal)(scope, receive, secured)

    async def _refusal(self, request: Request) -> Response | None:
        guard = self._guard
        if not guard.knows_host(request.headers.get("host")):
            return PlainTextResponse("The console does not answer for this host.\n", 421)
        if guard.logins is not None and request.query_params.get(TOKEN):
            return self._log_in(request, request.query_params[TOKEN])
        client = request.client.host if request.client else None
        user = guard.user(request.headers, request.cookies, client)
        if user is None:
            if request.url.path.startswith("/static/"):
                return None
            try:
                user = await guard.log_in(request.headers, client)
            except TooManyAttemptsError as error:
                later = {"retry-after": str(error.retry_s)}
                what = self._site.language(request).said(said(error))
                return PlainTextResponse(f"{what}\n", 429, later)
        if user is None:
            return self._site.log_in_page(request)
        request.scope["user"] = user
        if request.method not in {"GET", "HEAD"} and not guard.is_own_page(request.headers):
            what = say("An action must come from a page of the console.")
            return self._site.refusal(request, Refused(403, what))
        return None

    def _log_in(self, request: Request, token: str) -> Response:
        assert self._guard.logins is not None
        session = self._guard.logins.exchange(token)
        if session is None:
            return self._site.log_in_page(request, is_used=True)
        rest = [(name, one) for name, one in request.query_params.multi_items() if name != TOKEN]
        path = f"/{request.url.path.lstrip('/')}" + (f"?{urlencode(rest)}" if rest else "")
        response = self._site.logged_in(path)
        response.set_cookie(self._guard.cookie, session, httponly=True, samesite="strict", path="/")
        return response


def _secure(message: Message, request: Request) -> None:
    headers: list[tuple[bytes, bytes]] = message["headers"]
    names = {name.lower() for name, _ in headers}
    scripts = getattr(request.state, "scripts", "")
    policy = _POLICY.format(scripts=f" {scripts}" if scripts else "")
    for name, value in (*_HEADERS, ("content-security-policy", policy)):
        if name.encode() not in names:
            headers.append((name.encode(), value.encode()))
    if b"cache-control" not in names:
        is_file = request.url.path.startswith("/static/")
        headers.append((b"cache-control", b"max-age=3600" if is_file else b"no-store"))


class _Site:
    """Answers requests with pages."""

    def __init__(
        self, console: Console, guard: Guard, live: Live, patience_s: float | None
    ) -> None:
        self._guard = guard
        self._live = live
        self._languages = console.languages
        self._shared = SharedPages()
        self._turns = Turns()
        self._patience_s = patience_s
        self._answering = Answering(console, can_log_out=guard.logins is not None)
        self._of_sql = SqlAnswers(
            ChildSettings(
                console.reader.root,
                console.reader.options,
                None if console.config is None else str(console.config.absolute()),
                dict(console.places),
                console.is_read_only,
                guard.logins is not None,
                console.languages.chosen,
            )
        )

    async def close(self) -> None:
        """End the processes of queries."""
        await self._of_sql.children.stop()

    async def answer(self, page: Page, request: Request) -> Response:
        """Compute a page on a thread, once for all who ask for it at this batch."""
        asked = self._asked(request, page.path, is_action=page.is_action)
        if page.is_action:
            try:
                asked = msgspec.structs.replace(asked, form=await _form(request))
            except Refused as error:
                return _response(self._answering.refusal(asked, error))
        elif (page.is_file or asked.has_sql()) and not self._guard.may_be_own_page(request.headers):
            what = say("This address came from another site: look at it before you open it.")
            return _response(self._answering.refusal(asked, Refused(403, what), again=True))
        request.state.scripts = page.scripts

        async def compute() -> Response:
            if asked.has_sql() and asked.user.administrator:  # others may use none
                return _response(await self._in_child(asked))
            if asked.route == SQL and asked.user.administrator:
                await self._of_sql.children.prepare()
            async with self._turns.of(asked.user.name):
                return _response(await run_in_threadpool(self._answering.answer, asked))

        if page.is_action:
            self._shared.forget()
        if page.is_action or page.is_file:
            return await compute()
        parameters = tuple(request.query_params.multi_items())
        key = (asked.user, asked.language, page.path, parameters)
        version = self._live.batch if self._live.is_following else None
        # what fetches a part of a page waits, and shows the old part meanwhile
        patience_s = None if "hx-request" in request.headers else self._patience_s
        found = await self._shared.get(key, version, compute, patience_s)
        return found or _response(self._answering.computing(asked))

    async def _in_child(self, asked: Asked) -> Answered:
        try:
            return await self._of_sql.answer(asked)
        except DlxError as error:
            return self._answering.refusal(asked, error)

    def refusal(self, request: Request, error: Refused) -> Response:
        """Say why a request of a known user is not answered."""
        is_action = request.method not in {"GET", "HEAD"}
        asked = self._asked(request, "", is_action=is_action)
        return _response(self._answering.refusal(asked, error))

    async def not_found(self, request: Request, _error: Exception) -> Response:
        """Answer for an address that no page has."""
        return self._no_page(request, Refused(404, say("There is no such page.")))

    async def wrong_method(self, request: Request, _error: Exception) -> Response:
        """Answer for an action that was opened, or a page that was sent a form."""
        return self._no_page(request, Refused(405, say("This is not a page.")))

    def _no_page(self, request: Request, error: Refused) -> Response:
        user = request.scope.get("user")
        if user is None:  # a file, which everybody may fetch
            return PlainTextResponse(f"{error}\n", error.status)
        return self.refusal(request, error)

    def language(self, request: Request) -> Language:
        """The language of an answer."""
        return self._languages.wanted(request.headers.get("accept-language"))

    def _asked(self, request: Request, route: str, *, is_action: bool = False) -> Asked:
        return Asked(
            route,
            request.scope["user"],
            request.url.path,
            dict(request.query_params),
            {name: str(value) for name, value in request.path_params.items()},
            is_action=is_action,
            language=self.language(request).code,
        )

    def log_in_page(self, request: Request, *, is_used: bool = False) -> Response:
        """Say how to log in."""
        if self._guard.credentials is not None:
            challenge = {"www-authenticate": 'Basic realm="dlx console", charset="UTF-8"'}
            what = self.language(request).said(say("Log in with a user of the console."))
            return PlainTextResponse(f"{what}\n", 401, challenge)
        by_link = self._guard.logins is not None
        html = self._answering.text(
            "login.html",
            self.language(request),
            by_link=by_link,
            is_used=is_used,
            path=request.url.path,
        )
        return HTMLResponse(html, 403 if is_used else 401)

    def logged_in(self, path: str) -> Response:
        """Go on without the token in the address; a page of ours, so that the cookie is sent."""
        return RedirectResponse(path, 303)

    async def log_out(self, request: Request) -> Response:
        """End the session of a link."""
        session = request.cookies.get(self._guard.cookie)
        if self._guard.logins is not None and session is not None:
            self._guard.logins.end(session)
        response = RedirectResponse("/", 303)
        response.delete_cookie(self._guard.cookie, path="/")
        return response


def _response(found: Answered) -> Response:
    if found.file is not None:
        return StreamingResponse(found.file, found.status, found.headers)
    return Response(found.body, found.status, found.headers)


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a form.

    Raises:
        Refused: it is too large, or not a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind not in {"", "application/x-www-form-urlencoded"}:
        raise Refused(415, say("Send the fields of a form."))
    body = b""
    try:
        async with asyncio.timeout(FORM_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_FORM_BYTES:
                    what = say(
                        "The form is larger than %(count)s bytes.", count=str(MAX_FORM_BYTES)
                    )
                    raise Refused(413, what)
    except TimeoutError:
        raise Refused(408, say("The form was not sent in time.")) from None
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1_000))
    except ValueError:
        raise Refused(400, say("The form cannot be read.")) from None
