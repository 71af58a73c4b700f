"""What is at the port beside `/api/`: the way to the console, and a page that lists the API."""

from collections.abc import Iterable
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from streaming.listening import host_and_port
from streaming.management.routing import PREFIX, Resource

USUAL_PORT: Final = 9_420
"""Where the console is unless it is told otherwise."""

INDEX: Final = "/api/index.html"
_TO_CONSOLE: Final = frozenset({b"/", b"/index.html"})
_LED_ON: Final = {b"/mgmt": "/", **dict.fromkeys((b"/api", b"/stats", b"/doc/stats.html"), INDEX)}
"""Where RabbitMQ leads elsewhere, whatever the method is."""

_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not listened to

Address = tuple[str, int] | str
"""An address that the console listens on, or where a browser finds it."""


class Pages:
    """Pages that need no login.

    Args:
        console: where the console is; None: nowhere that is known.
    """

    def __init__(self, resources: Iterable[Resource], console: Address | None) -> None:
        self._console = console
        self._rows = "\n".join(map(_row, resources))

    def at(self, raw_path: bytes, request: Request) -> Response | None:
        """The page at a path; None if there is none."""
        led_on = _LED_ON.get(raw_path.removesuffix(b"/"))
        if led_on is not None:
            return RedirectResponse(led_on, 301)
        if request.method not in {"GET", "HEAD"}:
            return None
        if raw_path in _TO_CONSOLE:
            place = INDEX if self._console is None else _in_browser(self._console, request)
            return RedirectResponse(place, 302, {"cache-control": "no-cache"})
        if raw_path == INDEX.encode():
            console = escape(_in_browser(self._console or ("", USUAL_PORT), request))
            return HTMLResponse(_PAGE.format(rows=self._rows, console=console), headers=_HEADERS)
        return None


def _in_browser(console: Address, request: Request) -> str:
    """The address of the console as the browser that asks can use it."""
    if isinstance(console, str):
        return console
    host, port = console
    if host in _EVERYWHERE:
        host = request.url.hostname or "localhost"
    return f"http://{host_and_port(host, port)}/"


def _row(resource: Resource) -> str:
    methods = ", ".join(resource.handlers)
    return f"<tr><td>{methods}</td><td><code>{PREFIX}{escape(resource.path)}</code></td></tr>"


_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>dlx-stream: management API</title>
<style>body {{ font: 1em/1.4 sans-serif; margin: 2em; }} td {{ padding: 0 2em 0 0; }}</style>
</head><body>
<h1>dlx-stream: management API</h1>
<p>The HTTP API of RabbitMQ 4.0's management plugin, and below <code>/api/dlx</code> what RabbitMQ
has not (<a href="/api/dlx/openapi.json">OpenAPI</a>). Braces are for percent-encoded names.</p>
<p>The console, if it runs, is at <a href="{console}">{console}</a>: <code>dlx console</code> starts
it, or the profile <code>observe</code> of docker-compose.yml. A broker in memory has pages with
<code>--web PORT</code>.</p>
<table>
{rows}
</table>
</body></html>
"""
