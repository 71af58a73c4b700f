"""`[console]`: where a running job serves the console, and who may use it."""

from collections.abc import Iterator
from typing import Final

import attrs

from streaming.config.metrics import ADDRESS, split_address
from streaming.config.types import Section, flag, local, matching, setting
from streaming.listening import is_loopback
from topology.errors import Problem

_HEADER: Final = matching(r"[A-Za-z0-9-]{1,100}", "the name of an HTTP header")
_LANGUAGE: Final = matching(
    r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*|.+\.po", "a code such as de, or a file that ends in .po"
)
_SITE: Final = matching(r"https?://[^\s/?#@]+", "http:// or https:// and a host, without a path")


@attrs.frozen(kw_only=True)
class ConsoleSettings(Section):
    """The console: pages about the tables, in a browser."""

    listen: str | None = setting(
        None,
        "Address of the console. It runs in a process of its own beside the job, and the log says "
        "where the link is that logs in once. Any other address than one of this machine needs "
        "credentials or user_header. Not set: no console; `dlx console` starts one at any time.",
        matching(ADDRESS, "HOST:PORT, with a port from 1 to 65535"),
        example='"127.0.0.1:9420"',
    )
    read_only: bool = setting(
        False,  # noqa: FBT003 - a default
        "Refuse every action, whatever the role of the user.",
        flag(),
    )
    credentials: str | None = setting(
        None,
        "File with the users of the console, their roles and hashed passwords, for HTTP Basic "
        "authentication; `dlx console --hash-password` prints a hash. Not set: a link that logs in "
        "once.",
        local("file"),
        example='"console.toml"',
    )
    user_header: str | None = setting(
        None,
        "Header in which a proxy names the user that it has authenticated. Only requests from this "
        "machine that know proxy_secret may have it.",
        _HEADER,
        example='"X-Forwarded-User"',
    )
    proxy_secret: str | None = setting(
        None,
        "File with a secret of 16 characters or more, which the proxy sends in the header "
        "X-Dlx-Proxy-Secret. Without it, every program of this machine could name a user.",
        local("file"),
        example='"proxy.secret"',
    )
    role_header: str | None = setting(
        None,
        "Header in which the proxy names the role: viewer, operator or editor. Not set, or the "
        "request has none: viewer.",
        _HEADER,
        example='"X-Forwarded-Role"',
    )
    public_url: str | None = setting(
        None,
        "The console's address in the browser, if a proxy or another name leads to it. Requests "
        "for other hosts are refused.",
        _SITE,
        example='"https://dlx.example.com"',
    )

    language: str | None = setting(
        None,
        "Language of all pages: a code such as de, or the file of a translation. Not set: as each "
        "browser asks.",
        _LANGUAGE,
        example='"de"',
    )
    front: str | None = setting(
        None,
        "Address of the management API of `dlx amqp`. The pages of connections, channels and "
        "consumers are then live. Not set: they are as the tables knew them at the last batch.",
        _SITE,
        example='"http://127.0.0.1:15672"',
    )
    front_credentials: str | None = setting(
        None,
        "File with NAME:PASSWORD of a user of the front with the tag monitoring. Not set: guest.",
        local("file"),
        example='"front.secret"',
    )

    def contradictions(self) -> Iterator[Problem]:
        """Who may come in must be known on every address but this machine's."""
        if self.role_header is not None and self.user_header is None:
            yield Problem("role_header", "needs user_header, which names the user")
        if (self.proxy_secret is None) != (self.user_header is None):
            missing = "proxy_secret" if self.proxy_secret is None else "user_header"
            given = "user_header" if self.proxy_secret is None else "proxy_secret"
            yield Problem(given, f"needs {missing}: they are set together")
        if self.credentials is not None and self.user_header is not None:
            yield Problem("credentials", "cannot be combined with user_header: leave one out")
        if self.front_credentials is not None and self.front is None:
            yield Problem("front_credentials", "needs front, the address it is for")
        is_open = self.credentials is None and self.user_header is None
        if self.listen is not None and is_open and not _is_local(self.listen):
            yield Problem(
                "listen",
                "is not an address of this machine alone, so it needs credentials or user_header; "
                'or listen on "127.0.0.1:9420"',
            )


def _is_local(listen: str) -> bool:
    """Whether only this machine can reach an address."""
    host = split_address(listen)[0]
    return host == "localhost" or is_loopback(host)
