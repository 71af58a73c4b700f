"""Lists as RabbitMQ's clients ask for them: pages, filters, order and columns.

    ?page=2&page_size=50&name=^orders&use_regex=true&sort=messages&sort_reverse=true&columns=name

Without `page` the list is an array, and `name` filters nothing, as in RabbitMQ.
"""

import re
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from streaming.management.answers import LongAnswer, Pieces, as_bytes, encoded, written
from streaming.management.counting import Range
from streaming.management.errors import ApiError, bad_request
from streaming.management.pacing import Pace
from topology.errors import UnsupportedPatternError
from topology.patterns import Pattern

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_PATTERN: Final = 1_000
"""The longest regular expression, in characters."""

MAX_COLUMNS: Final = 200
MAX_SAMPLES: Final = 2_000_000
"""Samples in one answer: of each count that an item has, up to 501."""

_HISTORIES: Final = ("msg_rates", "lengths", "data_rates")
_MAX_STEPS: Final = 500
"""Samples after the first in a history, as in RabbitMQ."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_INVALID: Final = "Pagination parameters are invalid"

T = TypeVar("T")
Item = dict[str, Any]
Query = Mapping[str, str]
Place = tuple[tuple[int, Any], ...]
"""Where an item is in the order of a list."""


class Page:
    """The page that is asked for."""

    def __init__(self, query: Query) -> None:
        """Read the parameters.

        Raises:
            ApiError: 400, they are invalid.
        """
        self.number = _whole(query["page"])
        size = query.get("page_size")
        self.size = DEFAULT_PAGE_SIZE if size is None else _whole(size)
        if self.number < 1 or not 1 <= self.size <= MAX_PAGE_SIZE:
            raise ApiError(
                400,
                "invalid_pagination_parameters",
                f"Invalid pagination parameters: page number {self.number}, page size "
                f"{self.size if size else 'undefined'}",
            )
        self.wants = _name_filter(query)


def _whole(text: str) -> int:
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 99):  # noqa: PLR2004 - far beyond all pages
        raise bad_request(_INVALID)
    return int(text)


def _name_filter(query: Query) -> Callable[[str], bool] | None:
    name = query.get("name", "")
    if not name:
        return None
    if query.get("use_regex") != "true":
        wanted = name.lower()
        return lambda found: wanted in found.lower()
    if len(name) > MAX_PATTERN:
        raise bad_request(f"a regular expression may have {MAX_PATTERN} characters")
    try:
        return Pattern(f"(?i){name}").search
    except UnsupportedPatternError:
        raise bad_request(_INVALID) from None


PAGES: Final = frozenset({"page", "page_size", "name", "use_regex", "columns"})
ORDER: Final = frozenset({"sort", "sort_reverse"})
"""Parameters that need a value: those of all resources, and those of lists with pages."""


def refuse_bare(query_string: bytes, names: frozenset[str]) -> None:
    """400 if one of these parameters is there without an equals sign."""
    bare = {part.decode("latin-1") for part in query_string.split(b"&") if b"=" not in part}
    if bare & names:
        raise bad_request(_INVALID)


def paged(query: Query) -> Page | None:
    """The page that is asked for, if any; ApiError 400 if its parameters are invalid."""
    if "page" in query:
        return Page(query)
    if "page_size" in query:
        _whole(query["page_size"])
    return None


def expect_ranges(query: Query, error: str) -> None:
    """400 if a history is asked for that has no samples, or too many."""
    for prefix in (*_HISTORIES, "node_stats"):
        asked = query.get(f"{prefix}_age", ""), query.get(f"{prefix}_incr", "")
        if all(map(_INTEGER.fullmatch, asked)):
            age_s, step_s = map(int, asked)
            if age_s < 1 or step_s < 1 or age_s > _MAX_STEPS * step_s:
                reason = f"Invalid range parameters: age {age_s}, incr {step_s}"
                raise ApiError(400, error, reason)


def has_no_statistics(query: Query) -> bool:
    """Whether a request wants no statistics."""
    return query.get("disable_stats") == "true"


def refuse_without_statistics(query: Query) -> None:
    """400 if a request wants no statistics of what is nothing else."""
    if has_no_statistics(query):
        raise bad_request("Stats in management UI are disabled on this node")


class Listing:
    """One request for a list.

    Args:
        default_sort: the order if none is asked for.
        has_pages, has_columns: whether RabbitMQ heeds these parameters of this list.
    """

    def __init__(
        self,
        query: Query,
        default_sort: Sequence[str] = ("vhost", "name"),
        *,
        has_pages: bool = True,
        has_columns: bool = True,
    ) -> None:
        self.page = paged(query) if has_pages else None
        asked = query.get("sort", "")
        self.sorts = [asked, *default_sort] if asked else list(default_sort)
        self._paths = [_path(name) for name in self.sorts]
        if query.get("sort_reverse", "false") not in {"true", "false"}:
            raise bad_request("sort_reverse is neither true nor false")
        self.reverse = query.get("sort_reverse") == "true"
        self.columns = columns_of(query) if has_columns else None
        self._has_samples = any(Range(query, prefix).is_asked for prefix in _HISTORIES)
        self._samples = 0

    def sorts_by_only(self, names: Iterable[str]) -> bool:
        """Whether the order follows from these members alone."""
        return set(self.sorts) <= set(names)

    @property
    def end(self) -> int | None:
        """How many items of the order are needed, from the first one; None for all."""
        page = self.page
        return None if page is None else min(page.number * page.size, sys.maxsize)

    def wants(self, name: str) -> bool:
        """Whether the filter of the page wants an item of that name."""
        return self.page is None or self.page.wants is None or self.page.wants(name)

    def bounded(self, item: Item) -> Item:
        """An item of the answer.

        Raises:
            ApiError: 400, there are too many samples in the items so far.
        """
        if self._has_samples:
            self._samples += _samples_in(item)
            if self._samples > MAX_SAMPLES:
                raise bad_request(
                    f"an answer may have {MAX_SAMPLES} samples: ask for a page, or for fewer"
                )
        return item

    def place(self, item: Item) -> Place:
        """Where an item is in the order."""
        return tuple(_rank(_at(item, path)) for path in self._paths)

    def cut(self, items: Sequence[T]) -> Sequence[T]:
        """The items of the page.

        Raises:
            ApiError: 400, the page is beyond the last one.
        """
        page = self.page
        if page is None:
            return items
        first = (page.number - 1) * page.size
        if first and first >= len(items):
            raise ApiError(
                400,
                "page_out_of_range",
                f"Page out of range, page: {page.number} page size: {page.size}, len: {len(items)}",
            )
        return items[first : first + page.size]

    async def document(self, items: AsyncIterable[Any], filtered: int, total: int) -> Pieces:
        """Write items, with the numbers of the page if one was asked for.

        Args:
            items: those that are shown.
            filtered, total: how many there are with the filter, and without.
        """
        page = self.page
        if page is None:
            return await written(items)
        parts = [as_bytes(item) async for item in items]
        numbers = {
            "filtered_count": filtered,
            "item_count": len(parts),
            "page": page.number,
            "page_count": -(-filtered // page.size),
            "page_size": page.size,
            "total_count": total,
        }
        head = encoded(numbers)[:-1] + b',"items":['
        return await written(Pace().each(parts), head, b"]}")

    def shown(self, item: Item) -> Any:
        """An item with the columns that are asked for."""
        return item if self.columns is None else only(item, self.columns)

    async def reply(self, items: Iterable[Item]) -> LongAnswer:
        """Send a whole list."""
        pace = Pace()
        found = [self.bounded(item) async for item in pace.each(items)]
        wanted = [
            (self.place(item), number)
            async for number, item in pace.each(enumerate(found))
            if self.wants(str(item.get("name", "")))
        ]
        order = await pace.in_order(wanted, reverse=self.reverse, most=self.end)
        chosen = (self.shown(found[number]) for _, number in self.cut(order))
        answer = LongAnswer(await self.document(pace.each(chosen), len(wanted), len(found)))
        for done in (order, wanted, found):
            await pace.drop(done)
        return answer


Columns = dict[str, Any]
"""Names of members; the value has those below, or is empty for all."""


def columns_of(query: Query) -> Columns | None:
    """The columns that are asked for; None for all.

    Raises:
        ApiError: 400, there are too many.
    """
    text = query.get("columns")
    if text is None:
        return None
    paths = [path for path in text.split(",") if path]
    if len(paths) > MAX_COLUMNS:
        raise bad_request(f"at most {MAX_COLUMNS} columns may be asked for")
    columns: Columns = {}
    for path in paths:
        below = columns
        for name in _path(path)[:10]:
            below = below.setdefault(name, {})
    return columns


def _path(text: str) -> list[str]:
    """The names of members in a path, from outside; ApiError 400 if there is none."""
    names = [name for name in text.split(".") if name]
    if not names:
        raise bad_request(f"{text[:100]!r} names no member")
    return names


_WHOLE: Final = frozenset(
    {
        *("arguments", "client_properties", "limits", "metadata", "vhosts"),
        *("churn_rates", "object_totals", "queue_totals"),
    }
)
"""Members of which RabbitMQ chooses no part."""


def only(item: Item, columns: Columns) -> Any:
    """An item with some of its members; RabbitMQ writes one without any as an empty array."""
    found = {}
    for name in item:
        below = columns.get(name)
        if below is None:
            continue
        value = item[name]
        if below and name not in _WHOLE:
            value = _within(value, below)
        found[name] = value
    return found or []


def _within(value: Any, columns: Columns) -> Any:
    """The same of an object, or of each object in a list."""
    if isinstance(value, dict):
        return only(value, columns)
    if isinstance(value, list):
        return [only(one, columns) if isinstance(one, dict) else one for one in value]
    return value


def narrowed(document: Any, query: Query) -> Any:
    """An object, or each of a list of them, with the columns that are asked for."""
    columns = columns_of(query)
    if columns is None:
        return document
    if isinstance(document, list):
        return [narrowed(item, query) for item in document]
    return only(document, columns) if isinstance(document, dict) else document


def _at(item: Any, path: list[str]) -> Any:
    """The value at a path; 0 if it is not there, as RabbitMQ orders by."""
    for name in path:
        item = item.get(name, 0) if isinstance(item, dict) else 0
    return item


def _samples_in(item: Item) -> int:
    found = 0
    for value in item.values():
        if isinstance(value, dict):
            samples = value.get("samples")
            found += len(samples) if isinstance(samples, list) else _samples_in(value)
    return found


def _rank(value: Any) -> tuple[int, Any]:
    """Erlang's order of values: numbers, atoms, texts, then everything else by its text."""
    match value:
        case None | bool():
            return (2, {None: "null", True: "true", False: "false"}[value])
        case int() | float():
            return (1, value)
        case str():
            return (3, value)
        case _:
            return (4, repr(value))
