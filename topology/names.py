"""What names and keys may be."""

RESERVED_PREFIX = "amq."
"""Names that begin so are the broker's."""

MOST_BYTES = 255
"""Of a name or key in UTF-8: AMQP writes its length into one byte."""


def too_long(name: str) -> str | None:
    """What is wrong with a name or key that is too long, in words."""
    size = len(name.encode("utf-8", "surrogatepass"))
    return f"has {size} bytes, more than {MOST_BYTES}" if size > MOST_BYTES else None
