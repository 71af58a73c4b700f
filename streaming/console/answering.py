"""Computes the answer to a request: a page, a file, another address, or why there is none.

It runs on a thread of the console, or in a child process if the request has SQL of the user.
"""

import errno
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from streaming.console.languages import SOURCE, Language
from streaming.console.page import (
    Console,
    Download,
    Page,
    Redirect,
    Refused,
    View,
)
from streaming.console.reader import too_much
from streaming.console.rights import User
from streaming.queries.duckdb_tables import QueryError
from topology.errors import DlxError
from topology.sentences import said, say

LETTERS: Final = (
    *("queue", "reason", "exchange", "routing_key", "cause", "header", "id"),
    *("since", "until", "where"),
)
"""The fields about dead letters that a page without an answer shows again."""

HTML: Final = "text/html; charset=utf-8"

logger = logging.getLogger(__name__)


class Asked(msgspec.Struct, frozen=True):
    """A request.

    Attributes:
        route: the address of the page, as `Page.path` has it.
        path: of the URL.
        values, names, form: see `View`.
        is_action: it answers a form.
        language: the code of what the answer is said in.
    """

    route: str
    user: User
    path: str
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    form: dict[str, str] = {}
    is_action: bool = False
    language: str = SOURCE

    def has_sql(self) -> bool:
        """Whether SQL of the user is computed for it."""
        given = (self.values.get("sql"), self.values.get("where"), self.form.get("body_sql"))
        return any((one or "").strip() for one in given)


class Answered(msgspec.Struct):
    """An answer.

    Attributes:
        file: instead of a body; None: the body is all.
    """

    status: int
    headers: dict[str, str]
    body: bytes = b""
    file: Iterator[bytes] | None = None


class Answering:
    """Computes answers.

    Args:
        can_log_out: whether pages offer to end the session.
    """

    def __init__(self, console: Console, *, can_log_out: bool = False) -> None:
        self.console = console
        self._can_log_out = can_log_out
        self._pages = {page.path: page for page in console.pages}

    def answer(self, asked: Asked) -> Answered:
        """Compute the answer; a failure is an answer as well."""
        started_s = time.perf_counter()
        page = self._pages[asked.route]
        view = self._view(asked)
        try:
            with view:
                self._require(page, asked.user)
                view.require_vhost()
                if dated := {} if page.is_action or page.is_file else view.dated():
                    return Answered(303, {"location": view.here(**dated)})
                found = page.answer(view)
                match found:
                    case Redirect(path):
                        return Answered(303, {"location": path})
                    case Download():
                        return _file(found)
                html = self._render(view.template or page.template, view, page, found)
        except (Refused, QueryError, DlxError) as error:
            return self.refusal(asked, error, has_instant=view.has_instant)
        except MemoryError:
            self.console.reader.is_exhausted = True
            return self.refusal(asked, too_much())
        except OSError as error:
            return self.refusal(asked, _of_system(asked, error))
        except Exception:
            logger.exception("console: %s could not be shown", asked.path)
            return self.refusal(asked, _failure())
        took_ms = (time.perf_counter() - started_s) * 1000
        return _html(html, view.status, {"server-timing": f"page;dur={took_ms:.1f}"})

    def computing(self, asked: Asked) -> Answered:
        """Answer for a page that is not ready: it fetches the page."""
        page = self._pages[asked.route]
        return _html(self._render("computing.html", self._view(asked), page, {}), 202)

    def refusal(
        self, asked: Asked, error: Exception, *, again: bool = False, has_instant: bool = True
    ) -> Answered:
        """Say why a page is not shown.

        Args:
            again: whether a link on the page leads to the same address.
            has_instant: whether the tables have the instant of the URL; no link keeps one that
                they do not have.
        """
        status = error.status if isinstance(error, Refused) else 400
        view = self._view(asked)
        wants_live = view.is_live and view.as_of is not None
        if not has_instant:
            kept = {name: value for name, value in asked.values.items() if name != "as_of"}
            view = self._view(msgspec.structs.replace(asked, values=kept))
        values = {
            "what": said(error),
            "status": status,
            "again": again,
            "wants_live": wants_live,
            "letter_parameters": LETTERS,
        }
        return _html(self._render("refused.html", view, None, values), status)

    def text(self, template: str, language: Language, **values: Any) -> str:
        """Render a template that is no page."""
        return self.console.templates(language).get_template(template).render(values)

    def _view(self, asked: Asked) -> View:
        language = self.console.languages.named(asked.language)
        given = (asked.values, asked.names, asked.form)
        view = View(self.console, asked.user, asked.path, *given, language)
        view.is_live = not asked.is_action
        return view

    def _require(self, page: Page, user: User) -> None:
        if not user.may(page.role):
            what = say(
                "This needs the role %(role)s, and you are %(yours)s.",
                role=page.role,
                yours=user.role,
            )
            raise Refused(403, what)
        if page.role != "viewer" and self.console.is_read_only:
            raise Refused(403, say("The console is read-only: start it without --read-only."))

    def _render(
        self, template: str, view: View, page: Page | None, values: Mapping[str, Any]
    ) -> str:
        return self.text(
            template,
            view.language,
            view=view,
            url=view.url,
            here=view.here,
            page=page,
            navigation=[
                one for one in self.console.pages if one.nav is not None and one.is_for(view.user)
            ],
            can_log_out=self._can_log_out,
            shown_at=view.shown_at,
            unchanged_s=view.unchanged_s,
            **values,
        )


def _html(html: str, status: int, headers: Mapping[str, str] | None = None) -> Answered:
    return Answered(status, {"content-type": HTML, **(headers or {})}, html.encode())


def _failure() -> Refused:
    return Refused(500, say("The page could not be computed; the log of the console says why."))


def _of_system(asked: Asked, error: OSError) -> Refused:
    if error.errno == errno.EFBIG:
        return Refused(413, say("The file is too large: narrow the question."))
    logger.error("console: %s could not be shown", asked.path, exc_info=error)
    return _failure()


def _file(found: Download) -> Answered:
    name = quote(found.name, safe="")
    headers = {
        "content-type": found.media_type,
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
    }
    return Answered(200, headers, file=found.content)
