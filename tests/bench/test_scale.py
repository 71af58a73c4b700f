"""The model of `dlx bench scale`: one line for each number of lanes, and the fitted one."""

from tests.bench.scale.lane_costs import lane_costs


def test_a_batch_on_more_lanes_writes_more_state(tmp_path):
    numbers = (1, 2, 4)

    *measured, fitted = lane_costs(tmp_path, messages=4 * 108, batches=1, numbers=numbers)

    assert [each["case"] for each in measured] == [f"model_lanes_{lanes}" for lanes in numbers]
    assert {each["messages"] for each in measured} == {4 * 108}
    state_bytes = [each["state_bytes_per_message"] for each in measured]
    assert state_bytes == sorted(state_bytes)
    assert state_bytes[-1] > state_bytes[0]
    assert fitted["case"] == "model_fitted"
