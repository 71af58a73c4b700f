"""Why a request is not carried out, in RabbitMQ's words."""

from html import escape
from typing import Any, Final

GONE: Final = 404
"""Of requests, too, whose vhost is deleted meanwhile."""


class ApiError(Exception):
    """A request is not carried out.

    Attributes:
        error, reason: as the body has them; no error: no body.
    """

    def __init__(
        self, status: int, error: str = "", reason: Any = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, error, reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


def bad_request(reason: Any) -> ApiError:
    """400: the request makes no sense."""
    return ApiError(400, "bad_request", reason)


def term(value: Any) -> str:
    """A value of JSON as reasons show it: as a term of Erlang."""
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return f'<<"{value}">>' if value else "<<>>"
        case list():
            return f"[{','.join(map(term, value))}]"
        case dict():
            members = (f"{term(name)} => {term(one)}" for name, one in value.items())
            return f"#{{{','.join(members)}}}"
        case _:
            return str(value)


def not_valid(reason: str) -> ApiError:
    """400: a policy or a parameter is not valid. RabbitMQ escapes these reasons for HTML."""
    return bad_request(f"Validation failed\n\n{escape(reason, quote=False)}\n")


def missing() -> ApiError:
    """404: there is no such object."""
    return ApiError(404, "Object Not Found", "Not Found")


def not_found(reason: str) -> ApiError:
    """404: something that the request names is not there."""
    return ApiError(404, "not_found", reason)


def not_authorised(reason: str) -> ApiError:
    """401: the user may not do this."""
    return ApiError(401, "not_authorised", reason)


def deleted_meanwhile(vhost: str) -> ApiError:
    """503: somebody has deleted a vhost that somebody else has made."""
    return ApiError(503, "not_known", f"vhost '{vhost}' was deleted meanwhile")


def elsewhere(vhost: str) -> ApiError:
    """503: another front serves the vhost."""
    return ApiError(503, "served_elsewhere", f"vhost '{vhost}' is served by another front now")
