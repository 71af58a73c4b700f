"""A publish as the broker takes it, from the properties that travelled with it."""

from typing import Final

from streaming.amqp.errors import AmqpError
from streaming.amqp.properties import Seen, names_keys, see
from streaming.amqp.stored import Stored
from streaming.broker.message import Publication, Routed, publication_of
from streaming.protocol.log_records import CONTENT, UnknownRecordError

_MAX_KNOWN: Final = 20_000


class Publications:
    """What the broker looks at in publishes; equal ones share it, if their headers name no keys."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | int | Routed | None, ...], Publication] = {}

    def of(
        self,
        exchange: str,
        routing_key: str,
        seen: Seen,
        user_id: str | None,
        routed: Routed | None = None,
    ) -> Publication:
        """What the broker looks at in a publish with these properties.

        Args:
            user_id: the property, where it has to be the user.
            routed: in a transaction.
        """
        if names_keys(seen.headers):
            return publication_seen(exchange, routing_key, seen, user_id, routed)
        key = (exchange, routing_key, seen.expiration, seen.priority, user_id, routed)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = publication_seen(exchange, routing_key, seen, user_id, routed)
            self._known[key] = found
        return found


def publication_seen(
    exchange: str, routing_key: str, seen: Seen, user_id: str | None, routed: Routed | None = None
) -> Publication:
    """Make a publication that nothing else shares; arguments as of `Publications.of`."""
    properties = {"expiration": seen.expiration, "priority": seen.priority}
    publication = publication_of(exchange, routing_key, properties, seen.headers)
    publication.user_id, publication.routed = user_id, routed
    return publication


def stored_seen(properties: bytes, body: bytes, seen: Seen) -> Stored:
    """A message with these properties, which have been read."""
    return Stored(properties, body, seen.headers, seen.expiration)


def see_logged(content: bytes | None) -> Seen:
    """Read the properties of a publish in a log.

    Raises:
        UnknownRecordError: there are none, or they are damaged.
    """
    if content is None:
        raise UnknownRecordError(f"a publish has no header {CONTENT}")
    try:
        return see(content)
    except (AmqpError, IndexError) as error:
        raise UnknownRecordError(f"the properties cannot be read: {error}") from error
