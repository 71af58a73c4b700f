"""Fronts, a job and Kafka are killed while clients in Python and Go work with them."""

import pytest

from tests.bench.chaos.front.run import run_front_chaos
from tests.bench.chaos.front.strikes import KINDS


@pytest.mark.long  # each part is killed once; `dlx bench chaos --front` kills more
def test_what_clients_saw_is_in_the_tables_whatever_is_killed(tmp_path):
    result = run_front_chaos(tmp_path / "run", kills=len(KINDS), most_calm_s=3.0)

    assert result.findings == []
    assert result.kills == dict.fromkeys(KINDS, 1)
    # the run has shown something
    assert result.waiting > 0
    assert result.redelivered > 0
    assert result.digests > 0
    assert min(result.seen[kind] for kind in ("confirmed", "acked", "rejected", "requeued")) > 0
