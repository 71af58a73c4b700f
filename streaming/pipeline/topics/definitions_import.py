"""Definitions files of the configuration: imported by commands, before everything else (D5)."""

import json
from collections.abc import Mapping

from streaming.config import JobConfig
from streaming.protocol.definitions_packing import write_definitions
from streaming.protocol.record_headers import OP, VHOST
from streaming.record_sender import RecordSender, SendError
from topology.declarations import Definitions
from topology.definitions.dump import dump_definitions
from topology.errors import DlxError

FLUSH_TIMEOUT_S = 30


class ImportFailedError(DlxError):
    """Kafka did not accept the definitions of a vhost; the job must not start without them."""

    help_code = "import-failed"

    def __init__(self, vhost: str, topic: str, reason: str) -> None:
        super().__init__(
            f"vhosts.{vhost}.definitions: they cannot be imported by a command to {topic!r}: "
            f"{reason}. If they are too large, raise kafka.max_message_bytes, or remove a part and "
            "import it later (`dlx definitions import`)"
        )


def write_imports(
    config: JobConfig, definitions: Mapping[str, Definitions], producer: Mapping[str, str]
) -> None:
    """Write an import command for each vhost into the log; into a sequenced one the front does.

    Raises:
        ImportFailedError: Kafka did not accept one of them.
    """
    topic = config.topics_of("commands")[0]
    # With `clock = event`, date the commands before every record that waits in the inputs. With
    # `wall`, Kafka dates them.
    at_ms = 1 if config.job.clock == "event" else 0
    sender = RecordSender(producer)
    for vhost, one in definitions.items():
        if vhost in config.log_topics():
            continue
        try:
            packed = write_definitions(dump_definitions({vhost: one})).member
        except ValueError as error:
            raise ImportFailedError(vhost, topic, str(error)) from error
        value = json.dumps({"op": "import_definitions", **packed}).encode()
        headers = [(OP, b"import_definitions"), (VHOST, vhost.encode())]
        try:
            sender.send(topic, value, headers=headers, partition=0, timestamp=at_ms)
            sender.flush(FLUSH_TIMEOUT_S)
        except SendError as error:
            reason = f"Kafka did not accept its {len(value)} bytes ({error})"
            raise ImportFailedError(vhost, topic, reason) from error
