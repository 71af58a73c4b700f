"""The console's pages, and what every request goes through.

host --> who --> (an action: from an own page, role) --> a page's function on a thread --> HTML
"""

import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

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

from streaming.console.access import COOKIE, TOKEN, Guard, User
from streaming.console.live import Live
from streaming.console.page import (
    HERE,
    Console,
    Download,
    Page,
    Redirect,
    Refused,
    View,
    make_templates,
)
from streaming.console.pages.audit import audit
from streaming.console.pages.balance import balance
from streaming.console.pages.causes import causes
from streaming.console.pages.definitions import definitions, plan
from streaming.console.pages.health import health
from streaming.console.pages.message import message, message_body, message_scenario
from streaming.console.pages.now import now
from streaming.console.pages.queues import changes, queue, queues
from streaming.console.pages.redrives import (
    approve_redrive,
    control_redrive,
    redrive,
    redrive_plan,
    redrives,
    seal_plan,
)
from streaming.console.pages.search import export_search, forget_view, save_view, search
from streaming.console.pages.sql import export_sql, sql
from streaming.console.pages.topology import topology
from streaming.console.shared import SharedPages
from streaming.queries.duckdb_tables import QueryError
from topology.errors import DlxError

PAGES: Final = (
    Page("/", now, nav="Now", key="n"),
    Page("/queues", queues, nav="Queues", key="q"),
    Page("/queue", queue),
    Page("/changes", changes),
    Page("/topology", topology, nav="Topology", key="t", scripts="'wasm-unsafe-eval'"),
    Page("/balance", balance, nav="Balance", key="b"),
    Page("/definitions", definitions, nav="Definitions", key="d"),
    Page("/definitions/plan", plan, is_action=True),
    Page("/search", search, nav="Search", key="s"),
    Page("/search/export", export_search, is_file=True),
    Page("/search/save", save_view, is_action=True),
    Page("/search/forget", forget_view, is_action=True),
    Page("/causes", causes, nav="Causes", key="c"),
    Page("/message", message),
    Page("/message/body", message_body, is_file=True),
    Page("/message/scenario", message_scenario, is_file=True),
    Page("/redrives", redrives, nav="Redrives", key="r"),
    Page("/redrive", redrive),
    Page("/redrive/plan", redrive_plan),
    Page("/redrive/seal", seal_plan, role="operator", is_action=True),
    Page("/redrive/approve", approve_redrive, role="operator", is_action=True),
    Page("/redrive/control", control_redrive, role="operator", is_action=True),
    Page("/sql", sql, nav="SQL", key="l"),
    Page("/sql/export", export_sql, is_file=True),
    Page("/audit", audit, nav="Audit", key="a"),
    Page("/health", health, nav="Health", key="h"),
)
"""Every page of the console, in the order of the navigation."""

MAX_FORM_BYTES: Final = 2_000_000
MAX_HEADER_BYTES: Final = 64_000
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

_AS_OF: Final = re.compile("^--as-of ")
"""How errors about an instant begin; a page has no options."""

logger = logging.getLogger(__name__)


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
        # scrypt takes a moment
        user = await run_in_threadpool(guard.user, request.headers, request.cookies, client)
        if user is None:
            if request.url.path.startswith("/static/"):
                return None
            return self._site.log_in_page(request)
        request.scope["user"] = user
        if request.method not in {"GET", "HEAD"} and not guard.is_own_page(request.headers):
            what = "An action must come from a page of the console."
            return self._site.refusal(request, user, Refused(403, what))
        return None

    def _log_in(self, request: Request, token: str) -> Response:
        assert self._guard.logins is not None
        session = self._guard.logins.exchange(token)
        if session is None:
            return self._site.log_in_page(request, is_used=True)
        rest = [(name, one) for name, one in request.query_params.multi_items() if name != TOKEN]
        path = f"/{request.url.path.lstrip('/')}" + (f"?{urlencode(rest)}" if rest else "")
        response = self._site.logged_in(path)
        response.set_cookie(COOKIE, session, httponly=True, samesite="strict", path="/")
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
        self._console = console
        self._guard = guard
        self._live = live
        self._shared = SharedPages()
        self._patience_s = patience_s
        self._templates = make_templates()

    async def answer(self, page: Page, request: Request) -> Response:
        """Compute a page on a thread, once for all who ask for it at this batch."""
        user: User = request.scope["user"]
        form: dict[str, str] = {}
        if page.is_action:
            try:
                form = await _form(request)
            except Refused as error:
                return self.refusal(request, user, error)
        request.state.scripts = page.scripts

        async def compute() -> Response:
            return await run_in_threadpool(self._answer, page, request, user, form)

        if page.is_action:
            self._shared.forget()
        if page.is_action or page.is_file:
            return await compute()
        key = (user, page.path, tuple(request.query_params.multi_items()))
        version = self._live.batch if self._live.is_following else None
        # what fetches a part of a page waits, and shows the old part meanwhile
        patience_s = None if "hx-request" in request.headers else self._patience_s
        found = await self._shared.get(key, version, compute, patience_s)
        return found or self._computing(page, request, user)

    def _computing(self, page: Page, request: Request, user: User) -> Response:
        """Answer for a page that is not ready: it fetches the page."""
        view = View(self._console, user, request.url.path, request.query_params)
        return HTMLResponse(self._render("computing.html", view, page, {}), 202)

    def _answer(
        self, page: Page, request: Request, user: User, form: Mapping[str, str]
    ) -> Response:
        started_s = time.perf_counter()
        names = {name: str(value) for name, value in request.path_params.items()}
        view = View(self._console, user, request.url.path, request.query_params, names, form)
        view.is_live = not page.is_action
        try:
            with view:
                self._require(page, user)
                view.require_vhost()
                found = page.answer(view)
                match found:
                    case Redirect(path):
                        return RedirectResponse(path, 303)
                    case Download():
                        return _file(found)
                html = self._render(page.template, view, page, found)
        except (Refused, QueryError, DlxError) as error:
            return self.refusal(request, user, error)
        except Exception:
            logger.exception("console: %s could not be shown", request.url.path)
            what = "The page could not be computed; the log of the console says why."
            return self.refusal(request, user, Refused(500, what))
        took_ms = (time.perf_counter() - started_s) * 1000
        return HTMLResponse(html, view.status, headers={"server-timing": f"page;dur={took_ms:.1f}"})

    def _require(self, page: Page, user: User) -> None:
        if not user.may(page.role):
            raise Refused(403, f"This needs the role {page.role}, and you are {user.role}.")
        if page.role != "viewer" and self._console.is_read_only:
            raise Refused(403, "The console is read-only: start it without --read-only.")

    def _render(
        self, template: str, view: View, page: Page | None, values: Mapping[str, Any]
    ) -> str:
        return self._templates.get_template(template).render(
            {
                "view": view,
                "url": view.url,
                "here": view.here,
                "page": page,
                "navigation": [one for one in self._console.pages if one.nav is not None],
                "can_log_out": self._guard.logins is not None,
                **values,
            }
        )

    def refusal(self, request: Request, user: User, error: Exception) -> Response:
        """Say why a page is not shown."""
        status = error.status if isinstance(error, Refused) else 400
        view = View(self._console, user, request.url.path, request.query_params)
        view.is_live = request.method == "GET"
        html = self._render(
            "refused.html", view, None, {"what": _AS_OF.sub("As of ", str(error)), "status": status}
        )
        return HTMLResponse(html, status)

    async def not_found(self, request: Request, _error: Exception) -> Response:
        """Answer for an address that no page has."""
        return self._no_page(request, Refused(404, "There is no such page."))

    async def wrong_method(self, request: Request, _error: Exception) -> Response:
        """Answer for an action that was opened, or a page that was sent a form."""
        return self._no_page(request, Refused(405, "This is not a page."))

    def _no_page(self, request: Request, error: Refused) -> Response:
        user = request.scope.get("user")
        if user is None:  # a file, which everybody may fetch
            return PlainTextResponse(f"{error}\n", error.status)
        return self.refusal(request, user, error)

    def log_in_page(self, request: Request, *, is_used: bool = False) -> Response:
        """Say how to log in."""
        if self._guard.credentials is not None:
            challenge = {"www-authenticate": 'Basic realm="dlx console", charset="UTF-8"'}
            return PlainTextResponse("Log in with a user of the console.\n", 401, challenge)
        by_link = self._guard.logins is not None
        html = self._templates.get_template("login.html").render(
            by_link=by_link, is_used=is_used, path=request.url.path
        )
        return HTMLResponse(html, 403 if is_used else 401)

    def logged_in(self, path: str) -> Response:
        """Go on without the token in the address; a page of ours, so that the cookie is sent."""
        return RedirectResponse(path, 303)

    async def log_out(self, request: Request) -> Response:
        """End the session of a link."""
        session = request.cookies.get(COOKIE)
        if self._guard.logins is not None and session is not None:
            self._guard.logins.end(session)
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, path="/")
        return response


def _file(found: Download) -> Response:
    name = quote(found.name, safe="")
    return StreamingResponse(
        found.content,
        media_type=found.media_type,
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def _form(request: Request) -> dict[str, str]:
    """Read the fields of a form.

    Raises:
        Refused: it is too large, or not a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind not in {"", "application/x-www-form-urlencoded"}:
        raise Refused(415, "Send the fields of a form.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            raise Refused(413, f"The form is larger than {MAX_FORM_BYTES} bytes.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1_000))
    except ValueError:
        raise Refused(400, "The form cannot be read.") from None
