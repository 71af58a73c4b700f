"""Listens to heartbeats in Kafka, on a thread, as long as nobody closes it."""

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

_POLL_S: Final = 0.2


class HeartbeatListener:
    """A consumer and its thread.

    Args:
        properties: of librdkafka.
        own: further ones, which override them.

    Attributes:
        consumer: ask it for offsets before `start` only.
    """

    def __init__(self, properties: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self.consumer = Consumer(
            {
                **properties,
                "group.id": "dlx-sequencer",
                "enable.auto.commit": False,
                "log_level": 0,
                "error_cb": lambda _error: None,
                **own,
            }
        )
        self._is_stopping = False
        self._more: SimpleQueue[TopicPartition] = SimpleQueue()
        self._thread: Thread

    def start(
        self, name: str, partitions: list[TopicPartition], heard: Callable[[Message], None]
    ) -> None:
        """Begin to listen.

        Args:
            name: of the thread, which calls `heard`.
        """
        self.consumer.assign(partitions)
        self._thread = Thread(target=self._listen, args=(heard,), name=name, daemon=True)
        self._thread.start()

    def listen_to(self, partition: TopicPartition) -> None:
        """Listen to one more, soon: another thread than the listening one would block."""
        self._more.put(partition)

    def close(self) -> None:
        """Stop listening."""
        self._is_stopping = True
        self._thread.join()
        self.consumer.close()

    def _listen(self, heard: Callable[[Message], None]) -> None:
        while not self._is_stopping:
            while not self._more.empty():
                self.consumer.incremental_assign([self._more.get()])
            message = self.consumer.poll(_POLL_S)
            if message is not None and message.error() is None:
                heard(message)
