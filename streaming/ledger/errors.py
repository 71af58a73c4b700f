"""Errors about tables that the job cannot continue with, each with where, what and what to do."""

from topology.errors import DlxError


class LedgerError(DlxError):
    """The tables are in a state that the job cannot continue from; the batch is not written."""

    help_code = "tables-mismatch"


class DataFileConflictError(LedgerError):
    """A data file of a batch already exists with other content than the batch would write."""

    help_code = "data-file-conflict"


class TableMismatchError(LedgerError):
    """An existing table has a schema that this version cannot write."""

    help_code = "table-schema"


class BodyMismatchError(LedgerError):
    """A row of `messages` holds another message than the state says."""

    help_code = "message-row"


class BodyMissingError(LedgerError):
    """A message that is still needed is missing from `messages`."""

    help_code = "message-row"


class DamagedLogError(LedgerError):
    """A file of a table's Delta log is incomplete, and later ones need it."""

    help_code = "damaged-file"


class CommitError(LedgerError):
    """Delta refused every attempt of a commit, and not because the batch is already committed."""

    help_code = "commit-refused"


class FencedError(LedgerError):
    """Another driver has taken the lease; this one may not commit."""

    help_code = "lease-lost"
