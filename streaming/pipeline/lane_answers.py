"""One answer of those that the lanes of a vhost give to a command: the driver sends it.

A command that all lanes answer together (`broker.lanes`) is in one batch on all lanes, because it
is one record. Each lane reports its part; after the stages and before the commit, the driver merges
them and sends the answer, behind the deliveries that the command caused.

Replay: the record has `dlx-lane: -2` and the number of the home lane's part as its `dlx-seq`. A
batch that runs again gives the same parts, hence the same record, which readers drop.
"""

import json
from collections.abc import Iterable
from typing import Any

from streaming.broker.lanes import LanePart, RecordId, merged
from streaming.broker.outbound import is_answered
from streaming.pipeline.reports import ShardReport
from streaming.pipeline.task import OutboundTask
from streaming.protocol import record_headers as wire
from streaming.record_sender import BatchSender

ALL_LANES = -2
"""The lane of records that all lanes of a vhost answer together."""

HEADER_ROOM_BYTES = 4_096
"""Room for the key and the headers of an answer: names, of at most 255 bytes each."""

Header = tuple[str, bytes]


class LaneAnswers:
    """Sends the merged answers of a batch, from the driver."""

    def __init__(self, outbound: OutboundTask, sender: BatchSender) -> None:
        self._outbound = outbound
        self._sender = sender

    def send(self, reports: Iterable[ShardReport]) -> None:
        """Merge the parts that the lanes reported, and wait until Kafka has the answers.

        Raises:
            SendError: Kafka did not accept them; the batch fails and runs again.
        """
        parts: dict[tuple[str, str, RecordId], list[LanePart]] = {}
        for report in reports:
            for part in report.parts:
                parts.setdefault((report.vhost, part.op, part.place), []).append(part)
        answers = [(key[0], merged(each)) for key, each in parts.items()]
        if not answers:
            return
        with self._sender.sending() as sender:
            for vhost, answer in sorted(answers, key=lambda one: (one[0], one[1].seq)):
                topic = self._outbound.topics.get((vhost, answer.user or ""))
                if topic is not None and _is_sent(answer):
                    value, headers = self._record(vhost, answer)
                    sender.send(topic, value, key=answer.channel.encode(), headers=headers)

    def _record(self, vhost: str, answer: LanePart) -> tuple[bytes, list[Header]]:
        headers: list[Header] = [
            (wire.KIND, b"answer" if answer.op else b"confirm"),
            (wire.VHOST, vhost.encode()),
            (wire.LANE, str(ALL_LANES).encode()),
            (wire.SEQ, str(answer.seq).encode()),
            (wire.CHANNEL, answer.channel.encode()),
        ]
        document = _answer_document(answer) if answer.op else _confirm_document(answer)
        value = json.dumps(document, separators=(",", ":")).encode()
        if len(value) > self._outbound.record_bytes - HEADER_ROOM_BYTES:
            lists = {name: each for name, each in answer.result.items() if isinstance(each, list)}
            document["result"] = {**answer.result, **{name: [] for name in lists}}
            left_out = {name: len(each) for name, each in lists.items()}
            headers.append((wire.LEFT_OUT, json.dumps(left_out).encode()))
            value = json.dumps(document, separators=(",", ":")).encode()
        return value, headers


def _is_sent(answer: LanePart) -> bool:
    return not answer.op or is_answered(answer.op, answer.reply_id, answer.result, answer.refusal)


def _answer_document(answer: LanePart) -> dict[str, Any]:
    refusal = answer.refusal
    outcome: dict[str, Any] = {"result": answer.result}
    if refusal is not None:
        outcome = {"error": {"code": refusal.code, "text": refusal.text}}
    head = {"op": answer.op, "reply_id": answer.reply_id}
    return {**head, **outcome, "seq": answer.event_seq}


def _confirm_document(answer: LanePart) -> dict[str, Any]:
    topic_number, partition, offset = answer.place
    place = {"topic_number": topic_number, "partition": partition, "offset": offset}
    return {**answer.result, **place}
