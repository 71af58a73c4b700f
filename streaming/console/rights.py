"""Who may see and do what in the console.

    role            which actions: a viewer none, an operator those on messages, an editor edits too
    administrator   sees every vhost and every message
    anyone else     sees the vhosts in which it has a permission, and the messages that its read
                    permissions allow; those count as they are now, also for the past

Each page names the role that it needs (`all_pages.py`), and `answering.py` lets nobody else in.
`logins.py` says who a request is from, `streaming.queries.read_rights` how the tables hide what a
user may not read, and `Vhost.permissions` in `topology` what a permission allows.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from streaming.queries.vhosts.declared import Declared

Role = Literal["viewer", "operator", "editor"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""Each role may do what those before it may."""


class User(msgspec.Struct, frozen=True):
    """Someone who uses the console.

    Attributes:
        administrator: sees every vhost and every message; others what their permissions allow.
    """

    name: str
    role: Role
    administrator: bool = False

    def may(self, role: Role) -> bool:
        """Whether the user has a role, or more."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def visible(self, now: Mapping[str, Declared]) -> frozenset[str]:
        """The vhosts that the user may see if it is no administrator.

        Args:
            now: what is declared in each vhost.
        """
        return frozenset(vhost for vhost, each in now.items() if self.name in each.permissions)

    def may_read(self, now: Mapping[str, Declared], vhost: str, queue: str) -> bool:
        """Whether the user may read what was in a queue."""
        if self.administrator:
            return True
        each = now.get(vhost)
        return each is not None and each.vhost().permissions.allows(self.name, "read", queue)
