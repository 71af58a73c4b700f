"""A page: what a request asks for, what a page's function gets, and how it is rendered."""

import functools
import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

import jinja2
import msgspec

from streaming.console.balance_watch import BalanceWatch
from streaming.console.front_clients import FrontClients
from streaming.console.fronts import FrontWatch
from streaming.console.job_watch import JobWatch
from streaming.console.lag import LagWatch
from streaming.console.languages import ENGLISH, Language, Languages
from streaming.console.reader import Reader, is_clock, portable, read_instant, with_date
from streaming.console.rendering import make_templates
from streaming.console.rights import Role, User
from streaming.console.verdict import STALE_S
from streaming.queries import Queries
from streaming.queries.as_of.instant import resolve
from streaming.queries.duckdb_tables import Tables
from streaming.queries.job_totals import last_batches
from streaming.queries.vhosts.declared import Declared, TopologyLog, topology_log
from streaming.queries.vhosts.declared_rights import letter_places, rights_in
from topology.analysis.lint import lint
from topology.errors import DlxError, Problem
from topology.sentences import say

LIVE: Final = "live"
KEPT: Final = ("as_of", "vhost")
"""The parameters that links between pages keep."""

_TIMES: Final = ("as_of", "since", "until", "new_since", "from", "to", "compared_with")
"""The parameters that are instants."""

MAX_TEXT: Final = 10_000
PAGE_ROWS: Final = 100
MAX_PAGE: Final = 1_000_000
MAX_ANSWERS: Final = 64

T = TypeVar("T")


class Refused(DlxError):  # noqa: N818 - an answer, not a failure
    """A request is not answered; the text says why and what to do."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


class Redirect(NamedTuple):
    """Go on with another page."""

    path: str


class Download(NamedTuple):
    """A file instead of a page; the tables are closed before its content is sent."""

    name: str
    media_type: str
    content: Iterator[bytes]


Answer = Mapping[str, Any] | Redirect | Download


class View:
    """What one request asks for. The tables are opened when they are first needed.

    Attributes:
        path: of the URL, without parameters.
        values: the parameters of the URL; of a repeated one the last.
        form: the fields of an action.
        command: the `dlx` command with the same answer.
        title: the title of the page, if it is not that of the navigation.
        status: of the response.
        template: the name of the template, if it is not that of the page's function.
        is_live: whether its content is fetched again after each batch, if it is not of the past.
        language: what the page is said in.
    """

    def __init__(
        self,
        console: "Console",
        user: User,
        path: str,
        values: Mapping[str, str],
        names: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        language: Language = ENGLISH,
    ) -> None:
        self.console = console
        self.user = user
        self.path = f"/{path.lstrip('/')}"  # two slashes would begin the name of another site
        self.values = values
        self.names = dict(names or {})
        self.form = dict(form or {})
        self.command = ""
        self.title = ""
        self.status = 200
        self.template = ""
        self.is_live = True
        self.has_instant = True
        self.language = language
        self._opened = ExitStack()
        self._now: Mapping[str, Declared] = {}
        self._log: TopologyLog | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the tables; an interrupted query becomes an error for the user."""
        self._opened.__exit__(kind, error, traceback)

    def close(self) -> None:
        """Close the tables before the page ends; they are opened again if they are needed."""
        self._opened.close()
        for name in ("tables", "queries"):
            self.__dict__.pop(name, None)

    # -- the instant

    @property
    def as_of(self) -> str | None:
        """The instant of the URL; None: live."""
        wanted = self.text("as_of", "") or LIVE
        return None if wanted.lower() == LIVE else wanted

    @cached_property
    def tables(self) -> Tables:
        """The tables as of the instant of the URL, with the vhosts that the user may see.

        Permissions count as they are now, also for the past.
        """
        opened = self._opened.enter_context(self.console.reader.open())
        if not self.user.administrator:
            self._restrict(opened)
        if self.as_of is not None:  # afterwards: a message of another vhost is no instant
            self.has_instant = False
            opened.cut = resolve(opened, self.as_of, read_instant)
            self.has_instant = True
        return opened

    def _restrict(self, opened: Tables) -> None:
        """Show only what the permissions of now allow."""
        answers, events = self.console.answers, opened.table("events")
        letters = opened.table("dead_letters").version() if opened.has("dead_letters") else None
        log = answers.get(self._key("topology", events.version()), partial(topology_log, opened))
        places = answers.get(("places", letters), partial(letter_places, opened))
        self._now = self.with_permissions(answers.get(("declared", log.digest), log.replayed))
        opened.vhosts = self.user.visible(self._now)
        opened.rights = rights_in(self._now, places, self.user.name)
        self._log = log.only(opened.vhosts)

    @cached_property
    def end(self) -> datetime:
        """The instant that the page shows: that of the URL, or now."""
        return datetime.now(UTC) if self.as_of is None else self.known_until

    @cached_property
    def known_until(self) -> datetime:
        """The instant up to which the tables know what happened: that of the last batch shown."""
        cut = self.tables.cut
        if cut is not None and cut.at is not None:
            return cut.at
        last = last_batches(self.tables, 1)
        return datetime.fromtimestamp(last[0].at_s, UTC) if last else datetime.now(UTC)

    @property
    def shown_at(self) -> datetime | None:
        """The instant of the past that the page shows; None: it is live, or needs no tables."""
        is_past = self.as_of is not None and self.has_instant and "tables" in self.__dict__
        return self.known_until if is_past else None

    @property
    def unchanged_s(self) -> float | None:
        """How long before the instant of the past the last batch was; None: that, or not long."""
        shown_at = self.shown_at
        batches = [] if shown_at is None else last_batches(self.tables, 1)
        if shown_at is None or not batches:
            return None
        before_s = shown_at.timestamp() - batches[0].at_s
        return before_s if before_s > STALE_S else None

    def dated(self) -> dict[str, str]:
        """The parameters of the URL that are times of day, with their dates: they stay the same."""
        given = ((name, self.values.get(name, "")) for name in _TIMES)
        return {name: with_date(one) for name, one in given if is_clock(one)}

    def before(self, seconds: float) -> datetime:
        """The instant this many seconds before the end of what the page shows."""
        return self.end - timedelta(seconds=seconds)

    def with_permissions(self, declared: Mapping[str, Declared]) -> Mapping[str, Declared]:
        """What is declared, with the permissions that count for the user: those of the tables."""
        return declared

    def once(self, name: str, compute: Callable[[Tables], T]) -> T:
        """Return what is computed of the tables, or was at the same version for such a user.

        Args:
            name: what is computed, with all that it depends on besides the tables.
        """
        tables = self.tables
        user = None if tables.rights is None else self.user.name
        cut = tables.cut and (tables.cut.batch_id, self.as_of)
        key = self._key(name, tables.table("events").version(), cut, tables.vhosts, user)
        return self.console.answers.get(key, lambda: compute(tables))

    @staticmethod
    def _key(
        name: str,
        version: int,
        cut: Hashable = None,
        vhosts: frozenset[str] | None = None,
        user: str | None = None,
    ) -> Hashable:
        """The key of an answer about a version; the defaults: of everything, live."""
        return name, version, cut, vhosts, user

    @cached_property
    def queries(self) -> Queries:
        """The typed questions about them."""
        return Queries(self.tables)

    # -- parameters

    def text(self, name: str, default: str | None = None) -> str | None:
        """A parameter; the default if it is missing or blank."""
        value = self.values.get(name, "").strip()
        if len(value) > MAX_TEXT:
            raise Refused(
                400, say("%(name)s: is longer than %(count)s characters", name=name, count=MAX_TEXT)
            )
        return value or default

    def name(self, parameter: str) -> str | None:
        """A name as links have it, which may begin or end with blanks; None if it is missing."""
        return self.values[parameter] if self.text(parameter) is not None else None

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds; one beyond them counts as the nearest."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdecimal():
            what = say(
                "%(name)s: expected a whole number, not %(value)s",
                name=name,
                value=repr(value[:40]),
            )
            raise Refused(400, what)
        return min(max(int(value[:18]), least), most)

    def instant(self, name: str) -> datetime | None:
        """An instant; None if it is missing."""
        value = self.text(name)
        return None if value is None else read_instant(value)

    def one_of(self, name: str, *choices: str) -> str:
        """One of a few words; the first if it is missing or another one."""
        value = self.text(name)
        return value if value in choices else choices[0]

    @property
    def page(self) -> int:
        """The number of the page of a long list, from 1."""
        return self.number("page", 1, 1, MAX_PAGE)

    # -- who may see what

    @cached_property
    def _topology(self) -> TopologyLog:
        if self.tables.cut is None and self._log is not None:
            return self._log
        return self.once("topology", topology_log)

    @cached_property
    def declared(self) -> Mapping[str, Declared]:
        """What is declared in each vhost that the user may see."""
        return self.of_topology("declared", self._topology.replayed)

    def of_topology(self, name: str, compute: Callable[[], T]) -> T:
        """Return what is computed of the topology alone, which few batches change.

        Args:
            name: what is computed, with all that it depends on besides the topology.
        """
        return self.console.answers.get((name, self._topology.digest), compute)

    def lint(self, vhost: str) -> tuple[Problem, ...]:
        """What is probably a mistake in a vhost that the user may see."""
        definitions = self.declared[vhost].definitions
        return self.of_topology(f"lint {vhost}", lambda: lint(definitions()))

    @cached_property
    def vhost(self) -> str | None:
        """The vhost of the URL; None: all that the user may see."""
        return self.name("vhost")

    def require_vhost(self) -> None:
        """Refuse a vhost that does not exist, or that the user may not see."""
        if self.vhost is not None and self.vhost not in self.declared:
            what = say("There is no vhost %(vhost)s that you may see.", vhost=repr(self.vhost))
            raise Refused(404, what)

    @property
    def is_blind(self) -> bool:
        """Whether the user may see no vhost, so that an empty page says nothing."""
        return self._log is not None and not self.user.visible(self._now)

    def sees(self, vhost: str | None) -> bool:
        """Whether a row of a vhost belongs on the page."""
        if vhost is None:
            return self.user.administrator
        visible = self.tables.vhosts
        return self.vhost in {None, vhost} and (visible is None or vhost in visible)

    def may_read(self, vhost: str, queue: str) -> bool:
        """Whether the user may read what was in a queue."""
        assert self.user.administrator or self.tables.rights is not None
        return self.user.may_read(self._now, vhost, queue)

    def require_read(self, vhost: str, queue: str) -> None:
        """Refuse a user who may not read what was in a queue."""
        if not self.may_read(vhost, queue):
            raise Refused(
                403,
                say(
                    "user %(user)s has no read permission for queue %(queue)s in vhost %(vhost)s; "
                    "an administrator can give it with `dlx permissions set`",
                    user=repr(self.user.name),
                    queue=repr(queue),
                    vhost=repr(vhost),
                ),
            )

    def may(self, role: Role) -> bool:
        """Whether an action of a role would be accepted."""
        return self.user.may(role) and not self.console.is_read_only

    # -- links and commands

    def url(self, path: str, /, **changes: object) -> str:
        """A link to a page, with the instant and vhost of this one unless they are changed."""
        kept = {name: self.text(name) for name in KEPT}
        wanted = {
            **kept,
            **{name: None if one is None else str(one) for name, one in changes.items()},
        }
        query = urlencode({name: one for name, one in wanted.items() if one})
        path = quote(path, safe="/%")
        return f"{path}?{query}" if query else path

    def here(self, /, **changes: object) -> str:
        """A link to this page with other parameters."""
        return self.url(self.path, **{**self.values, **changes})

    def dlx(
        self,
        *words: object,
        names: Sequence[str] = (),
        vhost: bool = True,
        as_of: bool = True,
        tables: bool = True,
    ) -> str:
        """A `dlx` command, quoted for a shell, with the instant and the vhost of this page.

        It names the tables and the configuration if the console was started with them.

        Args:
            names: arguments that may begin with a dash.
            tables: whether the command reads tables.
        """
        parts = [str(word) for word in words]
        if not any(name.startswith("-") for name in names):
            parts += names
            names = ()
        if vhost and self.text("vhost"):
            parts += ["--vhost", str(self.text("vhost"))]
        if as_of and self.as_of is not None:
            parts += ["--as-of", portable(self.as_of)]
        for option, place in self.console.places.items():
            if tables or option != "--tables":
                parts += [option, place]
        if names:
            parts += ["--", *names]
        return shlex.join(["dlx", *parts])


class Page(NamedTuple):
    """An address of the console.

    Attributes:
        path: may have parts such as `{name}` or `{name:path}`; the function finds them in
            `view.names`.
        nav: its name in the navigation; None: it is not in it.
        name: what "Go to" calls a page that is not in the navigation; None: it leads nowhere there.
        key: the key that opens it, after `g`.
        role: who may open it. Anything but viewer changes something.
        is_action: it answers a form (POST) instead of being opened.
        is_file: it answers with a file.
        scripts: more sources of scripts for the Content-Security-Policy.
        is_for_administrators: others are refused, so it is not offered to them.
    """

    path: str
    answer: Callable[[View], Answer]
    nav: str | None = None
    name: str | None = None
    key: str | None = None
    role: Role = "viewer"
    is_action: bool = False
    is_file: bool = False
    scripts: str = ""
    is_for_administrators: bool = False

    def is_for(self, user: User) -> bool:
        """Whether it is offered to a user."""
        return user.administrator or not self.is_for_administrators

    @property
    def template(self) -> str:
        """The name of its template."""
        return f"{self.answer.__name__}.html"


class Answers:
    """Answers about a version of the tables, which never change. The latest are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._turns: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return an answer; it is computed unless it is known. Whoever asks meanwhile waits."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            try:
                with self._lock:
                    if key in self._known:
                        self._known.move_to_end(key)
                        known: T = self._known[key]
                        return known
                found = compute()
                with self._lock:
                    self._known[key] = found
                    while len(self._known) > MAX_ANSWERS:
                        self._known.popitem(last=False)
            finally:
                with self._lock:
                    self._turns.pop(key, None)
        return found


class Console(msgspec.Struct):
    """What all pages share.

    Attributes:
        config: the job's configuration, for actions; None: the console only reads.
        places: the options with which commands find the same tables.
        answers: what was computed before.
        balance: the last balances of the tables.
        lag: how far the job is behind Kafka.
        fronts: which AMQP fronts lead.
        job: whether the job runs, and why its batches fail.
        quiet: queues that the verdict leaves out, as `metrics.quiet_queues` names them.
        quiet_of: queues that are left out of one alert, and of what agrees with it, by its name.
        is_beside_job: whether it ends with the process of the job.
        front_clients: says who is connected now; None: only the tables do.
        languages: what pages can be said in.
        templates: those of a language; they stay compiled.
    """

    reader: Reader
    pages: tuple[Page, ...]
    config: Path | None = None
    is_read_only: bool = False
    places: Mapping[str, str] = {}
    answers: Answers = msgspec.field(default_factory=Answers)
    balance: BalanceWatch = msgspec.field(default_factory=BalanceWatch)
    lag: LagWatch = msgspec.field(default_factory=LagWatch)
    fronts: FrontWatch = msgspec.field(default_factory=FrontWatch)
    job: JobWatch = msgspec.field(default_factory=JobWatch)
    quiet: tuple[str, ...] = ()
    quiet_of: Mapping[str, tuple[str, ...]] = {}
    is_beside_job: bool = False
    front_clients: FrontClients | None = None
    languages: Languages = msgspec.field(default_factory=Languages)
    templates: Callable[[Language], jinja2.Environment] = msgspec.field(
        default_factory=lambda: functools.cache(make_templates)
    )

    def quiet_in(self, alert: str) -> tuple[str, ...]:
        """The queues that an alert leaves out, and so does what agrees with it."""
        return (*self.quiet, *self.quiet_of.get(alert, ()))
