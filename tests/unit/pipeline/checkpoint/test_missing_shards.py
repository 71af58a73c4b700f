"""A configuration that would make messages unreachable is refused."""

import pytest

from streaming.config import JobConfig
from streaming.config.vhosts import VhostSettings
from streaming.ledger.batch_detail import BatchDetail
from streaming.pipeline.checkpoint.errors import CheckpointError
from streaming.pipeline.checkpoint.manifest import Manifest
from streaming.pipeline.reports import ShardStats

MANIFEST = Manifest(shards={"0 /": 1, "0 shop": 2, "1 shop": 3})


def config(**lanes: int) -> JobConfig:
    vhosts = {"/": VhostSettings()}
    vhosts |= {name: VhostSettings(lanes=number) for name, number in lanes.items()}
    return JobConfig(vhosts=vhosts)


@pytest.mark.parametrize("lanes", [1, 3])
def test_another_number_of_lanes_is_refused(lanes):
    with pytest.raises(
        CheckpointError, match=rf"vhosts\.shop\.lanes: .* has {lanes}\. Set it to 2"
    ):
        MANIFEST.refuse_missing_shards(config(shop=lanes), ShardStats(BatchDetail()))


def test_a_vhost_with_messages_must_stay_listed():
    seen = ShardStats(BatchDetail(resident={3: (5, 100)}))

    with pytest.raises(CheckpointError, match=r"'shop' is missing, .* have 5 messages"):
        MANIFEST.refuse_missing_shards(config(), seen)


def test_new_vhosts_are_accepted_and_empty_ones_may_be_removed():
    seen = ShardStats(BatchDetail(resident={1: (9, 9), 2: (0, 0)}))

    MANIFEST.refuse_missing_shards(config(other=4), seen)


@pytest.mark.parametrize(("before", "now"), [(True, False), (False, True)])
def test_a_vhost_stays_sequenced_or_not(before, now):
    known = Manifest(shards={"0 shop": 1}, outcome_settings={"vhosts.shop.sequenced": before})

    with pytest.raises(
        CheckpointError, match=rf"vhosts\.shop\.sequenced: the checkpoint has {str(before).lower()}"
    ):
        known.refuse_changed_front({"vhosts.shop.sequenced": now})


def test_a_checkpoint_older_than_the_setting_and_a_removed_vhost_are_accepted():
    known = Manifest(
        shards={"0 /": 1, "0 gone": 2}, outcome_settings={"vhosts.gone.sequenced": True}
    )

    known.refuse_changed_front({"vhosts./.sequenced": False, "vhosts.new.sequenced": True})
