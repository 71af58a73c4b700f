"""Publishers of a front wait while messages take more than the high mark, and its job goes on."""

import attrs
import pytest

from streaming.config.flow import Absolute, FlowSettings
from streaming.config.vhosts import VhostSettings
from tests.e2e.amqp.test_job_behind import BODY, Publisher
from tests.e2e.amqp.test_on_kafka import declare, ready
from tests.e2e.amqp.test_rebuild_on_kafka import follows
from tests.fixtures.waiting import wait_until

MARK = Absolute(500_000)
ABOVE = MARK.size_bytes // len(BODY) + 10


@pytest.mark.long
def test_messages_above_the_mark_hold_publishers_back_and_no_settlement(fronts):
    flow = FlowSettings(vm_memory_high_watermark=MARK, low_mark_fraction=0.5)
    vhosts = {**fronts.config.vhosts, "of-kafka": VhostSettings()}
    fronts.use(attrs.evolve(fronts.config, flow=flow, vhosts=vhosts))
    front, job = fronts.start(), fronts.start_job()
    consuming = fronts.connect(front).channel()
    declare(consuming)
    publisher = Publisher(fronts, front)
    follows(fronts, job)

    publisher.publish(ABOVE)
    wait_until(lambda: publisher.hears("blocked"))
    publisher.publish(3)  # they wait in its socket
    assert ready(consuming, "work") == ABOVE
    follows(fronts, job)  # above its mark, too

    tags = [consuming.basic_get("work")[0].delivery_tag for _ in range(ABOVE)]
    consuming.basic_ack(tags[ABOVE // 3], multiple=True)
    assert publisher.hears("blocked")
    consuming.basic_ack(tags[-1], multiple=True)
    wait_until(lambda: publisher.hears("blocked", "unblocked"))
    wait_until(lambda: ready(consuming, "work") == 3)
    follows(fronts, job)
