"""What can go wrong with the programs that dlx brings along and starts for itself."""

from topology.errors import DlxError


class EmbeddedError(DlxError):
    """Kafka, Java, Spark's JVM or their jars cannot be used.

    The text names the place (file, port, folder), what is wrong there, and what to do about it.
    """
