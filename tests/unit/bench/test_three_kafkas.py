"""The three Kafka brokers of `dlx bench chaos --cluster` know each other before they start."""

import json

from tests.bench.chaos.three_kafkas import NODES, ThreeKafkas


def test_three_brokers_belong_to_one_cluster_and_have_ports_of_their_own(tmp_path):
    kafkas = ThreeKafkas(tmp_path)

    files = [json.loads((tmp_path / f"broker-{node}/ports.json").read_text()) for node in NODES]
    ports = [file[name] for file in files for name in ("port", "controller_port")]

    assert len(set(ports)) == 2 * len(NODES)
    assert kafkas.bootstrap_servers == ",".join(f"127.0.0.1:{file['port']}" for file in files)
    assert len({kafka.cluster_id for kafka in kafkas.nodes.values()}) == 1
