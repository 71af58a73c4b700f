"""What can be wrong with the tables as they are found, said with where, what, and what to do."""

from topology.errors import DlxError


class LedgerError(DlxError):
    """The tables cannot be continued as they are; the batch is not written."""


class DataFileConflictError(LedgerError):
    """A data file of a batch exists already and holds something else than the batch would write."""


class TableMismatchError(LedgerError):
    """A table exists, and it is not one that this version can write."""


class BodyMismatchError(LedgerError):
    """A place in the message store holds another message than the state says."""


class BodyMissingError(LedgerError):
    """A message that is still needed is nowhere in the message store."""


class CommitError(LedgerError):
    """Delta refused a commit again and again, for a reason other than a batch already there."""
