"""The error of the programs that dlx ships and starts."""

from topology.errors import DlxError


class EmbeddedError(DlxError):
    """Kafka, Java, Spark's JVM or their jars cannot be used.

    The message says where (file, port, folder), what is wrong, and what to do.
    """

    help_code = "embedded-program"
