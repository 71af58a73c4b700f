"""`dlx amqp verify` on a real Kafka."""

import json
import subprocess
import sys
from typing import Any

from streaming.broker.sequence.digest import SEGMENT
from streaming.protocol.log_records import LOG, LOG_VERSION, Digest, LogHeader, LogKind, encode
from tests.bench.kafka_log import KafkaLog


def verify(fronts, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run the command; its exit status, what it found, and its errors."""
    command = (sys.executable, "-P", "-m", "streaming.cli", "amqp", "verify", "--json")
    done = subprocess.run(
        (*command, "--config", str(fronts.file), *options),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_a_log_is_folded_again_from_the_start_and_from_a_snapshot(fronts):
    front = fronts.start()
    channel = fronts.connect(front).channel()
    channel.queue_declare("work", durable=True)
    for number in range(SEGMENT + 100):
        channel.basic_publish("", "work", b"body %d" % number)
    channel.queue_declare("work", passive=True)  # all publishes have arrived
    front.stop()
    snapshot = int(next((fronts.root / "checkpoints").rglob("*.snapshot")).stem)

    status, [whole], _ = verify(fronts)
    compared, [both], _ = verify(fronts, "--from", str(snapshot), "--against", "start")
    refused, _, errors = verify(fronts, "--from", "17")

    assert (status, whole["begin"], whole["parting"]) == (0, 0, None)
    assert (whole["digests"], whole["equal_to"]) == (1, SEGMENT)
    assert (compared, both["parting"], both["end"]) == (0, None, whole["end"])
    assert refused == 2
    assert f"there are: {snapshot}" in errors

    forged = encode(LogHeader(LOG_VERSION, 0, LogKind.DIGEST))  # the front's epoch began the log
    log = KafkaLog(fronts.servers)
    digest = encode(Digest(SEGMENT, b"wrong"))
    log.send(fronts.config.log_topics()["/"], digest, [(LOG, forged)])
    log.flush()
    parted, [found], _ = verify(fronts)

    assert parted == 1
    assert found["equal_to"] == SEGMENT
    assert (found["parting"]["first"], found["parting"]["last"]) == (0, SEGMENT)
    assert found["parting"]["there"] == b"wrong".hex()
