"""Lists as RabbitMQ's clients ask for them: pages, filters, order and columns.

    ?page=2&page_size=50&name=^orders&use_regex=true&sort=messages&sort_reverse=true&columns=name

Without `page` the list is an array, and `name` filters nothing, as in RabbitMQ.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from streaming.management.errors import ApiError, bad_request
from topology.errors import UnsupportedPatternError
from topology.patterns import Pattern

DEFAULT_PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_PATTERN: Final = 1_000
"""The longest regular expression, in characters."""

MAX_COLUMNS: Final = 200
_INVALID: Final = "Pagination parameters are invalid"

T = TypeVar("T")
Item = dict[str, Any]
Query = Mapping[str, str]


_AT_ONCE: Final = 200


async def collected(items: Iterable[Item]) -> list[Item]:
    """The items as a list; others are served while there are many."""
    found = []
    for item in items:
        found.append(item)
        if not len(found) % _AT_ONCE:
            await asyncio.sleep(0)
    return found


class Page:
    """The page that is asked for."""

    def __init__(self, query: Query) -> None:
        """Read the parameters.

        Raises:
            ApiError: 400, they are invalid.
        """
        self.number = _whole(query["page"])
        size = query.get("page_size", "")
        self.size = _whole(size) if size else DEFAULT_PAGE_SIZE
        if self.number < 1 or not 1 <= self.size <= MAX_PAGE_SIZE:
            raise ApiError(
                400,
                "invalid_pagination_parameters",
                f"Invalid pagination parameters: page number {self.number}, page size "
                f"{self.size if size else 'undefined'}",
            )
        self.wants = _name_filter(query)


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):  # noqa: PLR2004 - far beyond all pages
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


def paged(query: Query) -> Page | None:
    """The page that is asked for, if any; ApiError 400 if its parameters are invalid."""
    return Page(query) if query.get("page") else None


class Listing:
    """One request for a list.

    Args:
        default_sort: the order if none is asked for.
    """

    def __init__(self, query: Query, default_sort: Sequence[str] = ("vhost", "name")) -> None:
        self.page = paged(query)
        asked = query.get("sort", "")
        self.sorts = [asked, *default_sort] if asked else list(default_sort)
        self._paths = [name.split(".") for name in self.sorts]
        self.reverse = query.get("sort_reverse") == "true"
        self.columns = columns_of(query)

    def sorts_by_only(self, names: Iterable[str]) -> bool:
        """Whether the order follows from these members alone."""
        return set(self.sorts) <= set(names)

    def ordered(self, items: list[Item]) -> list[Item]:
        """The items that the filter wants, in order."""
        if self.page is not None and self.page.wants is not None:
            items = [item for item in items if self.wants(str(item.get("name", "")))]
        return sorted(items, key=self._place, reverse=self.reverse)

    async def arranged(self, items: Sequence[Item]) -> list[Item]:
        """Very many items in order, unfiltered; others are served meanwhile."""
        places = []
        for start in range(0, len(items), _AT_ONCE):
            places += [self._place(item) for item in items[start : start + _AT_ONCE]]
            await asyncio.sleep(0)
        order = sorted(range(len(items)), key=places.__getitem__, reverse=self.reverse)
        return [items[index] for index in order]

    def wants(self, name: str) -> bool:
        """Whether the filter of the page wants an item of that name."""
        return self.page is None or self.page.wants is None or self.page.wants(name)

    def _place(self, item: Item) -> tuple[tuple[int, Any], ...]:
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

    def wrapped(self, shown: list[Any], filtered: int, total: int) -> Any:
        """What is sent: the items, with the numbers of the page if one was asked for."""
        page = self.page
        if page is None:
            return shown
        return {
            "filtered_count": filtered,
            "item_count": len(shown),
            "items": shown,
            "page": page.number,
            "page_count": -(-filtered // page.size),
            "page_size": page.size,
            "total_count": total,
        }

    def shown(self, items: Sequence[Item]) -> list[Any]:
        """The items with the columns that are asked for."""
        if self.columns is None:
            return list(items)
        return [only(item, self.columns) for item in items]

    def reply(self, items: list[Item]) -> Any:
        """A whole list as it is sent."""
        ordered = self.ordered(items)
        return self.wrapped(self.shown(self.cut(ordered)), len(ordered), len(items))


Columns = dict[str, Any]
"""Names of members; the value has those below, or is empty for all."""


def columns_of(query: Query) -> Columns | None:
    """The columns that are asked for; None for all.

    Raises:
        ApiError: 400, there are too many.
    """
    text = query.get("columns", "")
    if not text:
        return None
    paths = text.split(",")
    if len(paths) > MAX_COLUMNS:
        raise bad_request(f"at most {MAX_COLUMNS} columns may be asked for")
    columns: Columns = {}
    for path in paths:
        below = columns
        for name in path.split(".")[:10]:
            below = below.setdefault(name, {})
    return columns


def only(item: Item, columns: Columns) -> Any:
    """An item with some of its members; RabbitMQ writes one without any as an empty array."""
    found = {}
    for name in item:
        below = columns.get(name)
        if below is None:
            continue
        value = item[name]
        if below and isinstance(value, dict):
            value = only(value, below)
            if not value:
                continue
        found[name] = value
    return found or []


def _at(item: Any, path: list[str]) -> Any:
    for name in path:
        if not isinstance(item, dict):
            return None
        item = item.get(name)
    return item


def _rank(value: Any) -> tuple[int, Any]:
    """Erlang's order of values: numbers, then words, then everything else by its text."""
    match value:
        case None:
            return (0, 0)
        case bool():
            return (2, int(value))
        case int() | float():
            return (1, value)
        case str():
            return (3, value)
        case _:
            return (4, repr(value))
