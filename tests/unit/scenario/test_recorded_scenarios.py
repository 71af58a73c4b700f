"""Every recorded scenario plays as RabbitMQ played it, on both versions, to the last header."""

import lzma

import pytest

from streaming.scenario.document import VERSIONS
from streaming.scenario.play import play
from tests.recordings import PACKED, PARTS, differences, pack, recorded_scenarios, unpack


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


def test_unpacked_recordings_pack_to_the_same_file(tmp_path):
    unpacked = unpack(tmp_path)

    packed = pack(tmp_path, tmp_path / "again.xz")

    assert unpacked == packed == sum(PARTS.values())
    again, shipped = (
        lzma.decompress(path.read_bytes()) for path in (tmp_path / "again.xz", PACKED)
    )
    assert again == shipped
