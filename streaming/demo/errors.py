"""What ends the demo."""

from topology.errors import DlxError


class DemoError(DlxError):
    """The demo cannot start or continue; the message says why."""
