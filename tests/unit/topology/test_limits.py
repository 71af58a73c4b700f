"""How many queues an import may add to a vhost."""

import pytest

from topology.declarations import VhostLimits
from topology.limits import refuse_import


@pytest.mark.parametrize(
    ("most", "has", "added"), [(None, 9, 9), (-1, 9, 9), (3, 2, 1), (3, 5, 0), (0, 0, 0)]
)
def test_an_import_that_keeps_the_limit_or_adds_nothing_is_taken(most, has, added):
    assert refuse_import(VhostLimits(max_queues=most), has, added, "shop") is None


@pytest.mark.parametrize(("most", "has", "told"), [(3, 2, 2), (0, 2, 0)])
def test_an_import_beyond_the_limit_is_refused_as_by_rabbitmq(most, has, told):
    refusal = refuse_import(VhostLimits(max_queues=most), has, 2, "shop")

    assert refusal is not None
    assert refusal.text.endswith(
        f'Adding 2 queue(s) to virtual host "shop" would exceed the limit of {most} queue(s).\n\n'
        f"This virtual host currently has {told} queue(s) defined.\n\nImport aborted!"
    )
