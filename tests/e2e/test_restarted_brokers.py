"""Offsets are told again after a broker of several was killed and has begun again."""

import json
from functools import partial

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.config import parse_config
from streaming.kafka_offsets import ELECTION_S, all_known, next_offsets
from streaming.pipeline.topics.admin import KafkaTopics
from tests.bench.chaos.three_kafkas import ThreeKafkas

PARTITIONS = 6
TIMEOUT_S = 30
CONFIG = """
[kafka]
bootstrap_servers = {servers}
replication_factor = 3
"""


@pytest.mark.long
def test_a_client_learns_the_new_leaders_of_partitions(tmp_path):
    with ThreeKafkas(tmp_path) as kafkas:
        servers = kafkas.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        [created] = admin.create_topics([NewTopic("work", PARTITIONS, 3)]).values()
        created.result()
        config = parse_config(CONFIG.format(servers=json.dumps(servers.split(","))))
        topics = KafkaTopics(config, {"bootstrap.servers": servers})
        topics.prepare()
        ask = partial(next_offsets, admin, [("work", number) for number in range(PARTITIONS)])
        before = all_known(ask(TIMEOUT_S, ELECTION_S))

        for node in (1, 2):
            kafkas.nodes[node].kill()
            kafkas.nodes[node].start()

            assert all_known(ask(TIMEOUT_S, ELECTION_S)) == before
            assert topics.bounds(["dlx.commands"]) == {("dlx.commands", 0): (0, 0)}
