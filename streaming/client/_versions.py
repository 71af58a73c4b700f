"""Publishes the new versions of a plan's edited letters, so that the job can move them."""

from typing import Final, cast

from streaming.broker.redrives.version_keys import VERSION_KEY
from streaming.client._transport.link import Link
from streaming.client._wire import publish_record
from streaming.client.errors import ClientError
from streaming.client.messages import Properties
from streaming.client.publisher import Publisher
from streaming.protocol.sealed_plan import SealedPlan
from topology.values import table_from_json

_MAX_UNCONFIRMED: Final = 10_000


def publish_versions(link: Link, plan: SealedPlan, key: str) -> None:
    """Publish each version on the lanes of its letters, and wait until the broker has them.

    In a sequenced vhost they go before the command that needs them, in the same partition.

    Args:
        key: of the commands of the redrive.

    Raises:
        AccessRefusedError: the user may not edit letters.
        ClientError: a version is too large for a message.
    """
    if link.address.sequenced:
        _send_versions(link, plan, key)
        return
    wanted = {
        (letter.lane, letter.edit.version) for letter in plan.letters if letter.edit is not None
    }
    for lane in sorted({lane for lane, _version in wanted}):
        publisher = Publisher(
            link,
            link.new_name("publisher"),
            confirms=True,
            on_return=None,
            on_flow="block",
            max_unconfirmed=_MAX_UNCONFIRMED,
            partition=lane,
        )
        with publisher:
            sent = []
            for version in sorted(version for of, version in wanted if of == lane):
                content = plan.edited[version]
                properties = cast("Properties", content.properties)
                headers = None if content.headers is None else table_from_json(content.headers)
                key = f"{VERSION_KEY}{version}"
                sent.append(publisher.publish("", key, content.body, properties, headers))
            for each in sent:
                each.result()


def _send_versions(link: Link, plan: SealedPlan, key: str) -> None:
    """Send each version where the commands go; the front copies both in this order.

    Raises:
        ClientError: a version is too large for a message.
    """
    most = link.address.max_body_bytes
    for version, content in sorted(plan.edited.items()):
        if len(content.body) > most:
            raise ClientError(f"an edited body has {len(content.body)} bytes, more than {most}")
        record = publish_record(
            content.body,
            link.address.vhost,
            key,
            "",
            f"{VERSION_KEY}{version}",
            cast("Properties", content.properties),
            None if content.headers is None else table_from_json(content.headers),
            "",
            (),
            key.encode(),
        )
        link.commands.send_record(record)
