"""What a setting is: the values it takes, its description, and the tables that hold settings.

Each table of `dlx.toml` is a `Section`, a frozen attrs class whose fields are made by `setting`:

    trigger_ms: int = setting(100, "Pause between ...", milliseconds(most=HOUR_MS))

A field's metadata holds its `Setting`, so that reading, showing, hashing and documenting a
configuration need no other list of fields. A setting whose default is None is optional: the file
leaves it out, since TOML has no null.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, Literal, TypeVar
from urllib.parse import unquote

import attrs

from topology.declarations import MAX_NAME_BYTES
from topology.errors import InvalidDocumentError, Problem
from topology.suggestions import did_you_mean

HOUR_MS: Final = 3_600_000
TEN_YEARS_MS: Final = 315_360_000_000
"""RabbitMQ's limit for a time to live, used here for every duration."""

MAX_PARTITIONS: Final = 10_000
MAX_TOPIC_CHARACTERS: Final = 249

STORAGE_SCHEMES: Final = ("file", "s3", "s3a", "gs", "abfs", "abfss", "hdfs")
"""URL schemes of shared storage that deltalake and our own clients support."""

CHECKPOINT_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "abfs": "azure",
    "abfss": "azure",
    "gs": "gcs",
    "hdfs": None,
}
"""URL schemes that a checkpoint can have -> the word in `job.storage` for jars beside Spark's."""

_GROUPED_FROM: Final = 10_000
"""Numbers with more digits than a year are written in groups of three."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.*)"
)
_SCHEME: Final = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
_FILE_URL: Final = re.compile(r"file:(?://(?:localhost)?)?(?P<path>/[^/?#][^?#]*)", re.IGNORECASE)

_KINDS: Final = (
    (bool, "a boolean"),  # before int: a bool is one
    (int, "a whole number"),
    (float, "a float"),
    (str, "a string"),
    (list | tuple, "an array"),
    (dict, "a table"),
)

T = TypeVar("T")


class InvalidConfigError(InvalidDocumentError):
    """The configuration cannot be used.

    No problem quotes the value of a secret, or of a key that might be one.
    """

    def within(self, path: str) -> list[Problem]:
        """The problems of a part of the file, whose own path is given."""
        return [Problem(join_path(path, each.where), each.what) for each in self.problems]


def invalid(what: str, where: str = "") -> InvalidConfigError:
    """One problem; its path starts at the value that is being read."""
    return InvalidConfigError([Problem(where, what)])


def refuse(problems: Iterable[Problem]) -> None:
    """Raise `InvalidConfigError` if there is any problem."""
    found = tuple(problems)
    if found:
        raise InvalidConfigError(found)


# --- Paths inside a TOML document ---


def write_string(text: str) -> str:
    """A TOML basic string: quoted, with control characters escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_whole(number: int) -> str:
    """An integer; a long one is grouped: `1_048_576`."""
    return f"{number:_}" if abs(number) >= _GROUPED_FROM else str(number)


def join_key(path: str, name: str) -> str:
    """The path of a member: `vhosts` and `/` give `vhosts."/"`."""
    return join_path(path, name if _BARE_KEY.fullmatch(name) else write_string(name))


def join_index(path: str, position: int) -> str:
    """The path of an array element: `inputs[2]`."""
    return f"{path}[{position}]"


def join_path(path: str, inner: str) -> str:
    """A path that continues inside another one; either may be empty."""
    return f"{path}.{inner}" if path and inner and not inner.startswith("[") else path + inner


def unknown_keys(raw: Mapping[str, Any], known: Sequence[str]) -> list[Problem]:
    """One problem for each key of an inline table that is not known."""
    return [
        Problem(join_key("", name), f"unknown key{did_you_mean(name, known)}")
        for name in sorted(raw.keys() - set(known))
    ]


def kind_of(raw: object) -> str:
    """The TOML type of a parsed value; never the value itself, which may be a secret."""
    return next((words for kind, words in _KINDS if isinstance(raw, kind)), "a date or time")


# --- Settings and the tables that hold them ---

Form = Literal["value", "path", "storage", "properties", "table", "named tables", "list of tables"]


@attrs.frozen(eq=False)
class Kind:
    """The values that a setting takes.

    Attributes:
        takes: what to write in the file: `a whole number of bytes`.
        read: turns a TOML value into the setting's value, and leaves such a value as it is. It
            raises `InvalidConfigError`, with paths that start at the setting.
        bounds: the valid values, for the reference; empty if `takes` says it.
        form: `path` is a path on this machine, `storage` a path or a URL, `properties` a
            pass-through table; tables are `[kafka]`, `[vhosts.NAME]` or `[[inputs]]`.
    """

    takes: str
    read: Callable[[Any], Any]
    bounds: str = ""
    form: Form = "value"
    section_class: "type[Section] | None" = None

    def header(self, name: str) -> str:
        """How a table begins in the file."""
        templates = {"named tables": "[{}.NAME]", "list of tables": "[[{}]]"}
        return templates.get(self.form, "[{}]").format(name)

    def members(self, value: Any, path: str) -> "Iterator[tuple[str, Any]]":
        """Path -> section, for each table that is set."""
        match self.form:
            case "named tables":
                yield from ((join_key(path, name), member) for name, member in value.items())
            case "list of tables":
                yield from ((join_index(path, n), member) for n, member in enumerate(value))
            case _ if value is not None:
                yield path, value
            case _:
                pass


@attrs.frozen(eq=False)
class Setting:
    """What a field's metadata says beyond its type and default.

    Attributes:
        description: unit, meaning, and the reason for the default.
        outcome: whether another value can change the results for the same records (outcome.py).
        example: the TOML value to show while an optional setting is not set.
        stand_in: value to continue with if a required setting is unreadable, so that one run
            reports the problems of the whole file.
    """

    description: str
    kind: Kind
    outcome: bool = False
    example: str = ""
    stand_in: object = None


def setting(
    default: T,
    description: str,
    kind: Kind,
    *,
    outcome: bool = False,
    example: str = "",
    required: bool = False,
) -> T:
    """A field; a dict is copied for each section. If required, the default is only a stand-in."""
    each = Setting(description, kind, outcome, example, default if required else None)
    field_default: Any = attrs.Factory(default.copy) if isinstance(default, dict) else default
    if required:
        field_default = attrs.NOTHING
    field: T = attrs.field(default=field_default, metadata={"setting": each})
    return field


@attrs.frozen(kw_only=True)
class Section:
    """A table of settings. One that code builds is checked like one in a file.

    Raises:
        InvalidConfigError: values are out of bounds, or contradict each other.
    """

    def __attrs_post_init__(self) -> None:
        """Check each value, then the rules between them; paths start at this section."""
        problems: list[Problem] = []
        for name, each in settings_of(type(self)).items():
            value = getattr(self, name)
            if value is not None:
                try:
                    object.__setattr__(self, name, each.kind.read(value))
                except InvalidConfigError as error:
                    problems += error.within(name)
        refuse(problems or self.contradictions())

    def contradictions(self) -> Iterator[Problem]:
        """Values that are valid one by one, but not together."""
        return iter(())


def settings_of(section_class: type[Section]) -> dict[str, Setting]:
    """Field name -> setting, in the order of the fields."""
    return {field.name: field.metadata["setting"] for field in attrs.fields(section_class)}


def default_of(field: "attrs.Attribute[Any]") -> object:
    """A field's default; `attrs.NOTHING` if the setting is required."""
    factory = getattr(field.default, "factory", None)
    return field.default if factory is None else factory()


def table(
    section_class: type[Section], form: Literal["table", "named tables", "list of tables"] = "table"
) -> Kind:
    """A table of settings, or several. Its sections check themselves."""
    takes, types = (
        ("an array of tables", (list, tuple)) if "list" in form else ("a table", (dict, Section))
    )

    return Kind(takes, _typed(takes, types), form=form, section_class=section_class)


# --- Kinds of simple values ---


def _typed(
    takes: str,
    types: type | tuple[type, ...],
    fault: Callable[[Any], str | None] = lambda _value: None,
) -> Callable[[Any], Any]:
    """Read a value of certain types that has no fault."""

    def read(raw: Any) -> Any:
        if not isinstance(raw, types) or (isinstance(raw, bool) and types is not bool):
            raise invalid(f"expected {takes}, got {kind_of(raw)}")
        what = fault(raw)
        if what is not None:
            raise invalid(what)
        return raw

    return read


def flag() -> Kind:
    """True or false."""
    return Kind("true or false", _typed("true or false", bool))


def whole(least: int, most: int, unit: str = "") -> Kind:
    """An integer within inclusive bounds; `unit` is for messages, such as `bytes`."""
    bounds = f"{write_whole(least)} to {write_whole(most)}"
    takes = f"a whole number of {unit}" if unit else "a whole number"

    def fault(number: int) -> str | None:
        return None if least <= number <= most else f"must be from {bounds}"

    return Kind(takes, _typed(takes, int, fault), bounds)


def milliseconds(least: int = 0, most: int = TEN_YEARS_MS) -> Kind:
    """A duration."""
    return whole(least, most, "milliseconds")


def size(least: int, most: int) -> Kind:
    """A number of bytes."""
    return whole(least, most, "bytes")


def fraction() -> Kind:
    """A number between 0 and 1, both excluded."""
    bounds = "above 0 and below 1"

    def fault(raw: float) -> str | None:
        return None if math.isfinite(raw) and 0 < raw < 1 else f"must be {bounds}"

    return Kind("a number", _typed("a number", (int, float), fault), bounds)


def choice(*words: str) -> Kind:
    """One of a few words."""
    listed = " or ".join(write_string(word) for word in words)

    def fault(raw: str) -> str | None:
        if raw in words:
            return None
        return f"must be {listed}, not {write_string(raw)}{did_you_mean(raw, words)}"

    return Kind(listed, _typed(f"{listed}, in quotes", str, fault))


def text(fault: Callable[[str], str | None], bounds: str = "", form: Form = "value") -> Kind:
    """A string; `fault` says what is wrong with it, or None."""
    return Kind("a string", _typed("a string", str, fault), bounds, form)


def matching(pattern: str, words: str) -> Kind:
    """A string that a pattern matches as a whole; `words` completes the sentence `must be ...`."""
    compiled = re.compile(pattern)
    return text(lambda raw: None if compiled.fullmatch(raw) else f"must be {words}", words)


def local(what: str, why: str = "") -> Kind:
    """A path or `file://` URL of a `what` on this machine; `why` ends the message if it is not."""
    bounds = f"a {what} on this machine, as a path or as file:///PATH"

    def fault(location: str) -> str | None:
        if not location:
            return "is empty"
        is_other_url = _SCHEME.match(location) and not _FILE_URL.fullmatch(location)
        return f"must be {bounds}{why}" if is_other_url else None

    read = _typed("a string", str, fault)

    def read_path(raw: Any) -> str:
        url = _FILE_URL.fullmatch(read(raw))
        return str(raw) if url is None else unquote(url["path"])

    return Kind("a string", read_path, bounds, "path")


def storage() -> Kind:
    """A path on this machine, or the URL of shared storage."""
    schemes = ", ".join(STORAGE_SCHEMES)
    return text(_storage_fault, f"a path, or a URL that begins with one of {schemes}", "storage")


def checkpoint() -> Kind:
    """A path or `file://` URL on this machine; a URL only of `CHECKPOINT_SCHEMES`."""
    schemes = ", ".join(("file", *CHECKPOINT_SCHEMES))
    bounds = f"a path, or a URL that begins with one of {schemes}"

    def fault(location: str) -> str | None:
        if not location:
            return "is empty"
        if _FILE_URL.fullmatch(location) or not _SCHEME.match(location):
            return None
        scheme = location.partition(":")[0]
        if scheme == "file":
            return f"must be {bounds}, and a URL of a folder has the form file:///PATH"
        if scheme not in CHECKPOINT_SCHEMES:
            return (
                f"must be {bounds}: a checkpoint in {scheme}: is not supported. Machines can also "
                "share one below job.shared_mount"
            )
        return _storage_fault(location)

    read = _typed("a string", str, fault)

    def read_location(raw: Any) -> str:
        url = _FILE_URL.fullmatch(read(raw))
        return str(raw) if url is None else unquote(url["path"])

    return Kind("a string", read_location, bounds, "storage")


def several(*words: str) -> Kind:
    """An array of these words, each at most once."""
    bounds = " or ".join(map(write_string, words))

    def read(raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple):
            raise invalid(f"expected an array, got {kind_of(raw)}")
        for one in raw:
            if one not in words:
                raise invalid(f"{one!r} is unknown: expected {bounds}")
        return tuple(dict.fromkeys(raw))

    return Kind("an array of strings", read, f"{bounds} each")


def strings(pattern: str, words: str) -> Kind:
    """An array of strings, each of which a pattern matches; `words` ends `must be ...`."""
    one = matching(pattern, words)

    def read(raw: Any) -> tuple[str, ...]:
        if not isinstance(raw, list | tuple):
            raise invalid(f"expected an array, got {kind_of(raw)}")
        return tuple(dict.fromkeys(one.read(each) for each in raw))

    return Kind("an array of strings", read, f"{words} each")


def is_url(location: str) -> bool:
    """Whether a location is shared storage rather than a path on this machine."""
    return _URL.fullmatch(location) is not None


def local_folder(location: str) -> PurePath | None:
    """The folder of this machine that a location names; None for shared storage."""
    url = _FILE_URL.fullmatch(location)
    if url is not None:
        return PurePath(unquote(url["path"]))
    return None if is_url(location) else PurePath(location)


def checkpoint_storage(location: str) -> str | None:
    """The word in `job.storage` that a checkpoint needs; None: it needs no jars beside Spark's."""
    url = _URL.fullmatch(location)
    return None if url is None else CHECKPOINT_SCHEMES.get(url["scheme"])


def _storage_fault(location: str) -> str | None:
    """What is wrong with a location; never quotes it, since it may contain a password."""
    if not location:
        return "is empty"
    url = _URL.fullmatch(location)
    if url is not None and (":" in url["authority"].rpartition("@")[0] or url["rest"]):
        return "must contain no password and no query: put credentials in tables.storage_options"
    if url is not None and url["scheme"] not in STORAGE_SCHEMES:
        return f"must be a path, or a URL that begins with one of {', '.join(STORAGE_SCHEMES)}"
    return None


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a vhost, user or header."""
    return short_string_fault(name) if name else "is empty"


def short_string_fault(name: str) -> str | None:
    """What is wrong with an exchange name or routing key, which may be empty."""
    too_long = len(name.encode()) > MAX_NAME_BYTES
    return f"is longer than {MAX_NAME_BYTES} bytes" if too_long else None


def topic_fault(name: str) -> str | None:
    """Why Kafka would refuse a topic with this name, or None."""
    if name in {"", ".", ".."}:
        return "is not a valid name for a Kafka topic"
    if not _TOPIC.fullmatch(name):
        return "must consist of letters, digits, '.', '_' and '-', as Kafka requires"
    if len(name) > MAX_TOPIC_CHARACTERS:
        return f"is longer than {MAX_TOPIC_CHARACTERS} characters, Kafka's limit"
    return None
