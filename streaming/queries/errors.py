"""The error of queries; its message says where, what, and what to do."""

from topology.errors import DlxError


class QueryError(DlxError):
    """A query cannot be answered: a table is missing, or the query has a mistake."""
