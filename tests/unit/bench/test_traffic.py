"""The load of `dlx bench pipeline`: what must have died before a measurement ends."""

import pytest

from tests.bench.pipeline.traffic import Shape, declarations


@pytest.mark.parametrize(("death", "kept"), [("both", 35), ("ttl", 0), ("length", 70)])
def test_what_length_limits_let_stay_is_not_waited_for(death, kept):
    shape = Shape(queues=10, max_length=7, death=death)
    queues = [one["queue"] for one in declarations(shape) if one["op"] == "declare_queue"]

    assert shape.kept == kept
    assert sum(one.get("arguments", {}).get("x-max-length", 0) for one in queues) == kept
