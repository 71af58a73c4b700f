"""Every recorded scenario plays as RabbitMQ played it, on both versions, to the last header."""

import lzma

import pytest

from streaming.broker.config import ShardConfig
from streaming.broker.shard import Shard
from streaming.broker.state.store import MemoryStore
from streaming.scenario import replies
from streaming.scenario.core_broker import CoreBroker
from streaming.scenario.document import VERSIONS
from streaming.scenario.play import Player, play
from tests.recordings import PACKED, PARTS, differences, pack, recorded_scenarios, unpack

RULES = "golden"


class CutBroker(CoreBroker):
    """Ends the batch after every step, and begins a new one from the stored bytes."""

    def __init__(self, compat):
        super().__init__(compat)
        self._config = ShardConfig(vhost=replies.VHOST, compat=compat)
        self._store = MemoryStore()
        self._open(replies.START_MS)

    def _open(self, now_ms):
        self.shard = Shard(self._config, self._store, now_ms=now_ms, published=self.published)

    def _replies(self):
        found = super()._replies()
        assert self.shard.finish().outbound == []
        self._open(self.shard.now_ms)
        return found


@pytest.mark.parametrize(("part", "count"), PARTS.items())
def test_no_recording_is_missing_and_every_detail_of_each_is_played(part, count):
    scenarios = recorded_scenarios(part)

    assert len(scenarios) == count
    assert [scenario.id for scenario in scenarios if scenario.skipped] == []


@pytest.mark.parametrize("compat", VERSIONS)
@pytest.mark.parametrize("part", PARTS)
def test_a_recorded_scenario_plays_as_rabbitmq_played_it(part, compat):
    differing = {
        scenario.id: found
        for scenario in recorded_scenarios(part)
        if (found := differences(scenario, compat, play(scenario, compat)))
    }

    assert differing == {}


@pytest.mark.parametrize("compat", VERSIONS)
def test_a_recorded_rule_holds_wherever_a_batch_ends(compat):
    differing = {
        scenario.id: found
        for scenario in recorded_scenarios(RULES)
        if (found := differences(scenario, compat, Player(scenario, CutBroker(compat)).play()))
    }

    assert differing == {}


def test_unpacked_recordings_pack_to_the_same_file(tmp_path):
    unpacked = unpack(tmp_path)

    packed = pack(tmp_path, tmp_path / "again.xz", preset=0)

    assert unpacked == packed == sum(PARTS.values())
    again, shipped = (
        lzma.decompress(path.read_bytes()) for path in (tmp_path / "again.xz", PACKED)
    )
    assert again == shipped
