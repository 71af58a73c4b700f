"""Which hosts the metrics server answers for, which defeats rebinding of DNS names.

A web page can lead its own name to this server's address, and then read what it answers. Its name
is one of the public DNS; so other names may come in, and those that are configured.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

PRIVATE: Final = (".internal", ".local", ".localdomain", ".localhost", ".svc")
"""How names end that no public DNS has; `.svc` is Kubernetes'."""


def is_known_host(header: str | None, names: Collection[str]) -> bool:
    """Whether a header `Host` may stand in a request; no browser leaves it out.

    Args:
        names: configured ones, in lower case; each counts on every port.
    """
    if header is None:
        return True
    try:
        host = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    if not host:
        return False
    name = host.rstrip(".")
    return _is_number(name) or "." not in name or name.endswith(PRIVATE) or name in names


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
