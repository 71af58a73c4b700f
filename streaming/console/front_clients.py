"""Who is connected now, as the AMQP front says it: from its management API.

    a page --> FrontClients --GET /api/connections?page=1--> the front           if it answers, live
    a page --> what the tables knew at the last batch                     else

A front that is slow or gone costs a page two seconds at most, and then no page for a while.
"""

import base64
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from topology.sentences import say

Kind = Literal["connections", "channels", "consumers"]

TIMEOUT_S: Final = 2.0
FRESH_S: Final = 3.0
"""How long an answer is shown to others who ask."""

SILENT_S: Final = 15.0
"""How long a front that did not answer is not asked again."""

PAGE_SIZE: Final = 500
MAX_PAGES: Final = 4
MAX_BYTES: Final = 8_000_000


class FrontError(Exception):
    """The front did not answer, or not with a list."""


class FrontRows(NamedTuple):
    """What the front has.

    Attributes:
        rows: as the management API has them.
        total: how many there are; more than the rows if they are very many.
        at_s: when it was asked, epoch seconds.
    """

    rows: Sequence[Mapping[str, Any]]
    total: int
    at_s: float


class FrontClients:
    """A front.

    Args:
        url: of its management API, such as `http://127.0.0.1:15672`.
        credentials: a file with the name and password of a user with the tag monitoring, as
            `NAME:PASSWORD`; None: guest.
    """

    def __init__(self, url: str, credentials: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self._credentials = credentials
        self._lock = threading.Lock()
        self._known: dict[Kind, FrontRows] = {}
        self._silent_until_s = 0.0
        self._fault = ""

    def rows(self, kind: Kind) -> FrontRows:
        """Return what the front has now, or had a moment ago.

        Raises:
            FrontError: it does not answer; the text says why.
        """
        with self._lock:
            known = self._known.get(kind)
            if known is not None and time.time() - known.at_s < FRESH_S:
                return known
            if time.monotonic() < self._silent_until_s:
                raise FrontError(self._fault)
            try:
                found = self._asked(kind)
            except FrontError as error:
                self._fault = error.args[0]
                self._silent_until_s = time.monotonic() + SILENT_S
                raise
            self._known[kind] = found
            return found

    def _asked(self, kind: Kind) -> FrontRows:
        rows: list[Mapping[str, Any]] = []
        total = 0
        for page in range(1, MAX_PAGES + 1):
            found = self._get(f"/api/{kind}", page=page, page_size=PAGE_SIZE)
            is_whole = kind == "consumers" and isinstance(found, list)  # they have no pages
            if is_whole:
                found = {"items": found[: MAX_PAGES * PAGE_SIZE], "filtered_count": len(found)}
            items = found.get("items") if isinstance(found, dict) else None
            if not isinstance(items, list):
                raise FrontError(say("its answer is not a list of the management API"))
            rows += [one for one in items if isinstance(one, dict)]
            count = found.get("filtered_count")
            total = count if isinstance(count, int) else len(rows)
            if is_whole or len(rows) >= total or not items:
                break
        return FrontRows(rows, max(total, len(rows)), time.time())

    def _get(self, path: str, **query: int) -> Any:
        import http.client  # noqa: PLC0415 - slow, and few consoles ask a front

        parts = urlsplit(self.url)
        opener = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        assert parts.hostname is not None
        try:
            connection = opener(parts.hostname, parts.port, timeout=TIMEOUT_S)
            try:
                headers = {"authorization": f"Basic {self._login()}", "accept": "application/json"}
                connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
                answer = connection.getresponse()
                content = answer.read(MAX_BYTES + 1)
            finally:
                connection.close()
            if answer.status != http.client.OK:
                raise FrontError(
                    say(
                        "it answers %(status)s",
                        status=" ".join([str(answer.status), answer.reason]),
                    )
                )
            if len(content) > MAX_BYTES:
                raise FrontError(say("its answer has more than %(count)s bytes", count=MAX_BYTES))
            return msgspec.json.decode(content)
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FrontError(str(said)) from None

    def _login(self) -> str:
        login = "guest:guest"
        if self._credentials is not None:
            login = self._credentials.read_text("utf-8").strip()
        return base64.b64encode(login.encode()).decode()


def plain_rows(kind: Kind, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows with the columns that pages show, whatever the front has said."""
    for row in rows:
        if kind == "connections":
            client = _of(row, "client_properties")
            said = [client.get(name) for name in ("product", "version")]
            yield {
                "vhost": row.get("vhost"),
                "user": row.get("user"),
                "name": row.get("name"),
                "client": " ".join(one for one in said if isinstance(one, str)),
                "channels": row.get("channels"),
                "tls": bool(row.get("ssl")),
                "state": row.get("state"),
                "since_s": _seconds(row.get("connected_at")),
            }
        elif kind == "channels":
            yield {
                "vhost": row.get("vhost"),
                "user": row.get("user"),
                "name": row.get("name"),
                "consumers": row.get("consumer_count"),
                "unacked": row.get("messages_unacknowledged"),
                "prefetch": row.get("prefetch_count"),
                "confirm": bool(row.get("confirm")),
            }
        else:
            queue, channel = _of(row, "queue"), _of(row, "channel_details")
            yield {
                "vhost": queue.get("vhost"),
                "queue": queue.get("name"),
                "user": channel.get("user"),
                "channel": channel.get("name"),
                "tag": row.get("consumer_tag"),
                "ack": bool(row.get("ack_required")),
                "prefetch": row.get("prefetch_count"),
                "exclusive": bool(row.get("exclusive")),
                "active": bool(row.get("active")),
            }


def _of(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}


def _seconds(value: Any) -> float | None:
    is_instant = isinstance(value, int | float) and 0 <= value < 1e14  # noqa: PLR2004 - milliseconds
    return value / 1000 if is_instant else None
