"""Does a Kafka broker answer, and is it the one we mean?"""

import socket

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0


def answers_as(cluster_id: str, bootstrap_servers: str) -> bool:
    """Whether a metadata request is answered by a cluster of that id with a broker in service.

    A broker is listed once the controller has let it serve, so topics can be made from then on.
    """
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        # First a plain connection: librdkafka would wait and log at each refusal.
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        metadata = client.list_topics(timeout=ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return str(metadata.cluster_id) == cluster_id and bool(metadata.brokers)
