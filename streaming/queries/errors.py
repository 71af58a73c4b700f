"""What can be wrong with a question to the tables; the message says where, what, and what to do."""

from topology.errors import DlxError


class QueryError(DlxError):
    """The tables cannot answer: they are not there, or the question has a mistake."""
