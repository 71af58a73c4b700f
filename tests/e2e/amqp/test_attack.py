"""The AMQP server under attack: a few of each kind; `python -m tests.attack` makes more."""

import pytest

from tests.attack.attacks import ATTACKS
from tests.attack.siege import besieged

SEEDS = [range(3), pytest.param(range(3, 10), marks=pytest.mark.nightly)]  # the same with others


@pytest.fixture(scope="module")
def siege(tmp_path_factory):
    with besieged(tmp_path_factory.mktemp("besieged")) as running:
        yield running


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_client_that_breaks_the_rules_harms_nobody_else(siege, attack, seeds):
    for seed in seeds:
        siege.run(attack, seed)
